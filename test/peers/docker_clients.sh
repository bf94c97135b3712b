#!/bin/sh
# docker_clients.sh: docker's command line 28, its buildx and docker compose 2 of Debian's unstable suite, unpacked
# into $XDG_CACHE_HOME/svc-peers/docker-clients-1. Go programs: they run without the rest of that suite.
#
# About 45 MB, 180 MB unpacked; 15 s, once.
set -eu
exec "$(dirname "$0")/unstable.sh" "${XDG_CACHE_HOME:-$HOME/.cache}/svc-peers/docker-clients-1" \
  docker-cli docker-compose docker-buildx
