#!/bin/sh
# unstable.sh [ROOT [PACKAGE...]]: programs of Debian's unstable suite that tests take as peers (dockerd 28,
# podman 5), with the libraries they need, unpacked into ROOT. Nothing is installed: test/peers/namespace.ts lays ROOT/usr
# over /usr in a namespace of its own. Default: $XDG_CACHE_HOME/svc-peers/unstable-1.
#
# About 110 MB from the host's own Debian mirror, 330 MB unpacked; 15 s to 30 s, once. As root.
set -eu
root=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/svc-peers/unstable-1}
packages="docker.io docker-cli podman crun netavark aardvark-dns nftables passt slirp4netns catatonit uidmap"
[ $# -lt 2 ] || { shift && packages=$*; }
[ -e "$root/ready" ] && exit 0
mkdir -p "$(dirname "$root")"
exec 9>"$root.lock"
flock 9
[ -e "$root/ready" ] && exit 0

scratch=$(mktemp -d "$root.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' HUP INT TERM
mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial" "$scratch/root"
# The program that downloads may be an ordinary user's.
chmod 755 "$scratch"
: >"$scratch/status"
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1)
mirror=${mirror:-$(awk '$1 == "deb" { print $2; exit }' /etc/apt/sources.list)}
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$scratch/sources"

# The host's own lists and its own state of packages stay as they are.
apt() {
  apt-get -qq -y -o Dir::Etc::sourcelist="$scratch/sources" -o Dir::Etc::sourceparts=- \
    -o Dir::State::lists="$scratch/lists" -o Dir::State::status="$scratch/status" \
    -o Dir::Cache="$scratch/cache" -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root \
    -o Acquire::Languages=none -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false "$@"
}
apt update
# With nothing installed, that is all that they depend on.
# shellcheck disable=SC2086 # a list of words
apt install --no-install-recommends --download-only $packages >/dev/null
for package in "$scratch"/cache/archives/*.deb; do
  dpkg-deb -x "$package" "$scratch/root"
done
touch "$scratch/root/ready"
rm -rf "$root"
mv "$scratch/root" "$root"
