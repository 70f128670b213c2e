#!/bin/sh
# Runs a command with a network of its own: its loopback carries RATE in each direction between two ranks, and goes nowhere else.
#
#     examples/sweep/on_link.sh RATE COMMAND [ARGUMENT...]
#
# RATE is what tc takes, such as 100mbit or 1gbit. Needs iproute2, and root or user namespaces. Ranks of one host use a network
# only if launch.backend is "gloo": by default they share memory.
set -eu

if [ $# -lt 2 ]; then
  echo "usage: $0 RATE COMMAND [ARGUMENT...], such as: $0 100mbit hookline launch --set launch.backend=gloo ./train" >&2
  exit 2
fi
number=${1%%[!0-9]*}
unit=${1#"$number"}
case $unit in kbit | mbit | gbit) ;; *) number='' ;; esac
case $number in 0* | ?????*) number='' ;; esac
if [ -z "$number" ]; then
  echo "$0: '$1' is not a rate: 1 to 9999 and kbit, mbit or gbit, such as 100mbit" >&2
  exit 2
fi
shift
PATH=$PATH:/usr/sbin:/sbin
for program in ip tc unshare; do
  command -v "$program" >/dev/null || { echo "$0: there is no '$program' here: install iproute2 and util-linux" >&2; exit 127; }
done

as_root=--map-root-user
if [ "$(id -u)" -eq 0 ]; then as_root=''; fi
# Both directions pass the same loopback, whereas a link has its whole rate for each. So the loopback gets twice the rate:
# ranks that send as much as they receive have the whole rate in each direction. A burst is as much as passes at once; what
# waits longer than 200 ms is dropped.
# shellcheck disable=SC2016,SC2086 # the inner shell's variables; no word if it is empty
exec unshare --net $as_root sh -c '
  rate=$1
  shift
  ip link set lo up && tc qdisc add dev lo root tbf rate "$rate" burst 256kb latency 200ms || exit 1
  exec "$@"
' on_link "$((2 * number))$unit" "$@"
