#!/bin/sh
# incus.sh [ROOT]: Incus and what it runs OCI images with, of Debian's unstable suite, unpacked into ROOT as
# unstable.sh does. Default: $XDG_CACHE_HOME/svc-peers/incus-1. About 100 MB, 20 s to 70 s, once. As root.
set -eu
cd "$(dirname "$0")"
exec ./unstable.sh "${1:-${XDG_CACHE_HOME:-$HOME/.cache}/svc-peers/incus-1}" \
  incus-base incus-client skopeo umoci dnsmasq-base nftables attr squashfs-tools xz-utils uidmap
