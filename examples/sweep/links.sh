#!/bin/sh
# Which hook wins on which network? The sweep of digits.toml, or charlm.toml, with the ranks' network shaped to 100 Mbit/s, to
# 1 Gbit/s, and as it is, and one page of all three. From the top of the checkout, after ./dev build:
#
#     examples/sweep/links.sh [digits|charlm]
set -eu

here=$(dirname "$0")
name=${1:-digits}
if [ $# -gt 1 ] || [ ! -f "$here/$name.toml" ]; then
  echo "usage: $0 [digits|charlm]" >&2
  exit 2
fi
hookline=build/bin/hookline
for link in 100mbit 1gbit; do
  "$here/on_link.sh" $link $hookline sweep "$here/$name.toml" --output "hookline-sweeps/$name-$link"
done
$hookline sweep "$here/$name.toml" --output "hookline-sweeps/$name-unshaped"
$hookline report "hookline-sweeps/$name-100mbit" "hookline-sweeps/$name-1gbit" "hookline-sweeps/$name-unshaped" \
  --output "hookline-sweeps/$name-links.html"
