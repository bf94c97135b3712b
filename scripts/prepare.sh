# Sourced by scripts/test and scripts/demo: sees to it that Debian packages are there.

# The package of a program, and whether it is installed.
package_of() {
  case $1 in
  cni) echo containernetworking-plugins ;;
  ctr) echo containerd ;;
  qemu-aarch64-static) echo qemu-user-static ;;
  busybox) echo busybox-static ;;
  docker | dockerd) echo docker.io ;;
  ip) echo iproute2 ;;
  ceph) echo ceph-common ;;
  sshd) echo openssh-server ;;
  dbus-run-session) echo dbus-daemon ;;
  gnome-keyring-daemon) echo gnome-keyring ;;
  secret-tool) echo libsecret-tools ;;
  ssh | ssh-keygen | ssh-agent | ssh-add) echo openssh-client ;;
  xz) echo xz-utils ;;
  diodcat | diodls) echo diod ;;
  newuidmap | newgidmap) echo uidmap ;;
  pasta) echo passt ;;
  *) echo "$1" ;;
  esac
}

present() {
  case $1 in
  cni) [ -x /usr/lib/cni/bridge ] || [ -x /opt/cni/bin/bridge ] ;;
  # Only a static one runs in an image of its own.
  busybox) [ -x /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1 ;;
  python3-docker) [ -e /usr/lib/python3/dist-packages/docker/__init__.py ] ;;
  netavark | aardvark-dns) [ -x "/usr/lib/podman/$1" ] || command -v "$1" >/dev/null 2>&1 ;;
  *) command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ] ;;
  esac
}

# The packages of those of the programs that are missing.
lacking() {
  for program in "$@"; do
    present "$program" || package_of "$program"
  done | sort -u | tr '\n' ' '
}

# provide PROGRAM...: installs what is missing where it can, else says what to install and fails.
provide() {
  packages=$(lacking "$@")
  [ -n "$packages" ] || return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "Missing: $packages; install them (Debian, Ubuntu: apt-get install $packages)" >&2
    return 1
  fi
  echo "installing: $packages" >&2
  # Their services are not wanted: a docker daemon, for one, would change the host's firewall.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
  else
    policy=
  fi
  output=$(mktemp)
  export DEBIAN_FRONTEND=noninteractive
  result=1
  if apt-get update -qq >"$output" 2>&1; then
    # From Debian 13 on docker's client is a package of its own.
    case $packages in
    *docker.io*) ! apt-cache show docker-cli >/dev/null 2>&1 || packages="$packages docker-cli" ;;
    esac
    # shellcheck disable=SC2086 # a list of words
    apt-get install -qq -y --no-install-recommends $packages >>"$output" 2>&1 && result=0
  fi
  [ -z "$policy" ] || rm -f "$policy"
  [ "$result" = 0 ] || tail -n 20 "$output" >&2
  rm -f "$output"
  packages=$(lacking "$@")
  [ -z "$packages" ] || echo "Still missing after installing them: $packages" >&2
  [ "$result" = 0 ] && [ -z "$packages" ]
}

# npm is what scripts/deno gets Deno with, where it is not there already.
provide_deno() {
  [ -x "${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/svc/deno-2.9.6/deno" ] ||
    command -v deno >/dev/null 2>&1 || provide npm
}
