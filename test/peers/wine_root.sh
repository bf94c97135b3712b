#!/bin/sh
# wine_root.sh [ROOT]: makes a root in which Windows programs run (wine 10 of Debian's unstable suite, and the
# pinned Deno for Windows), for test/e2e/windows_test.ts. As root, once: it takes some minutes and 2 GB. Needs
# mmdebstrap and npm. Default: $XDG_CACHE_HOME/svc-peers/wine. Bookworm's own wine is too old for Deno.
set -eu
root=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/svc-peers/wine}
version=2.9.5
[ -f "$root/w/ready" ] && exit 0
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1)
mirror=${mirror:-$(awk '$1 == "deb" { print $2; exit }' /etc/apt/sources.list)}
[ -e "$root/var/lib/dpkg/info/wine64.list" ] || {
  mkdir -p "$(dirname "$root")"
  mmdebstrap --aptopt='Acquire::Check-Valid-Until "false"' --variant=minbase --include=wine64 \
    sid "$root" "$mirror"
}
mkdir -p "$root/w" "$root/host"
[ -f "$root/w/deno.exe" ] || {
  scratch=$(mktemp -d)
  (cd "$scratch" && npm pack --silent "@deno/win32-x64@$version" >/dev/null && tar -xzf ./*.tgz)
  mv "$scratch/package/deno.exe" "$root/w/deno.exe"
  rm -rf "$scratch"
}
unshare -m --propagation private sh -euc '
  mount -t proc proc "$0/proc"
  mount --rbind /dev "$0/dev"
  chroot "$0" env -i HOME=/root PATH=/usr/bin:/bin:/usr/lib/wine WINEPREFIX=/w/prefix WINEDEBUG=-all \
    wine64 wineboot -i >/dev/null 2>&1
' "$root"
touch "$root/w/ready"
