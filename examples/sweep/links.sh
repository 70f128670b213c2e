#!/bin/sh
# Which hook wins on which network? The sweep of digits.toml with the ranks' network shaped to 100 Mbit/s, to 1 Gbit/s, and as it
# is, and one page of all three. From the top of the checkout, after ./dev build:
#
#     examples/sweep/links.sh
set -eu

here=$(dirname "$0")
hookline=build/bin/hookline
for link in 100mbit 1gbit; do
  "$here/on_link.sh" $link $hookline sweep "$here/digits.toml" --output hookline-sweeps/digits-$link
done
$hookline sweep "$here/digits.toml" --output hookline-sweeps/digits-unshaped
$hookline report hookline-sweeps/digits-100mbit hookline-sweeps/digits-1gbit hookline-sweeps/digits-unshaped \
  --output hookline-sweeps/digits-links.html
