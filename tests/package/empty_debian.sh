#!/usr/bin/env bash
# Installs a package into an empty Debian, and there builds, launches and sweeps the program that `hookline new` makes.
# usage: empty_debian.sh PACKAGE.deb|PACKAGE.tar.gz SITE_PACKAGES     (as root; SITE_PACKAGES has torch)
set -euo pipefail
package=$(realpath "$1")
site=$(realpath "$2")
if [[ ${3:-} != in-own-namespace ]]; then
  # Mounts end with the namespace, whatever happens.
  exec unshare --mount --pid --fork --kill-child bash "$0" "$package" "$site" in-own-namespace
fi

root=$(mktemp -d /tmp/hookline-debian.XXXXXX)
clean() {
  local place
  for place in proc dev/shm dev opt/torch; do umount -l "$root/$place" 2>/dev/null || true; done
  # Never what is still mounted there.
  if grep -q " $root/" /proc/self/mountinfo; then
    printf 'empty_debian.sh: %s is left, since something is still mounted in it\n' "$root" >&2
  else
    rm -rf --one-file-system "$root"
  fi
}
trap clean EXIT
log=$root.log
quietly() {
  "$@" >"$log" 2>&1 </dev/null || { tail -n 40 "$log" >&2; printf 'empty_debian.sh: failed: %s\n' "$*" >&2; exit 1; }
}

printf '== an empty Debian in %s\n' "$root"
quietly debootstrap --variant=minbase bookworm "$root" "$(awk '/^URIs:/ { print $2; exit }' /etc/apt/sources.list.d/debian.sources)"
cp -a /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
rm -f "$root"/etc/apt/apt.conf.d/*packagekit* "$root"/etc/apt/apt.conf.d/*appstream*
mkdir -p "$root/opt/torch"
mount --bind "$site" "$root/opt/torch"
mount -o remount,bind,ro "$root/opt/torch"
mount --bind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t proc proc "$root/proc"
cp "$package" "$root/tmp/"
cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
inside() { env -i PATH=/opt/hookline/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root HOOKLINE_TORCH=/opt/torch chroot "$root" "$@"; }

case $package in
  *.deb)
    printf '== installing %s by apt\n' "${package##*/}"
    quietly inside apt-get install -y --no-install-recommends "/tmp/${package##*/}"
    prefix=/usr
    ;;
  *)
    printf '== unpacking %s\n' "${package##*/}"
    mkdir "$root/opt/hookline"
    quietly inside tar -xzf "/tmp/${package##*/}" -C /opt/hookline --strip-components=1
    test -f "$root/opt/hookline/share/doc/hookline/licences/libcurl4"
    prefix=/opt/hookline
    ;;
esac
# Before any compiler is installed, whose libraries might stand in for what the package lacks.
inside hookline --version
inside hookline launch --processes-per-node 2 true
inside hookline test --processes-per-node 2
printf '== installing a compiler\n'
quietly inside apt-get install -y --no-install-recommends g++ make cmake libgloo-dev libcurl4-openssl-dev

cat >"$root/root/try.sh" <<'TRY'
set -euo pipefail
prefix=$1
cd /root
[[ $(hookline --cmake-dir) == $prefix/lib/cmake/hookline ]]
hookline new my-training
cd my-training
cmake -S . -B build -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build build
hookline launch --config hookline.toml build/train
hookline test --processes-per-node 2
hookline env
hookline sweep sweep.toml
test -f "$prefix/share/man/man1/hookline-launch.1"
TRY
inside bash /root/try.sh "$prefix" 2>&1 | tee "$log"
grep -q 'epoch 4: loss 0\.[012]' "$log"
rm "$log"
printf '== %s works in an empty Debian\n' "${package##*/}"
