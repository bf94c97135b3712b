/** What a case runs: a script for busybox that tells what it sees, in sections, and then waits. */
export const PROBE = String.raw`#!/bin/sh
# "/probe -e" in a running container: only what belongs to the process.
me=$$
sec() { echo "@@ $1"; }
sec argv; for a in "$@"; do echo "$a"; done
sec env; busybox tr '\000\012' '\012\014' </proc/$me/environ
sec cwd; readlink /proc/$me/cwd
sec status; grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp):' /proc/$me/status
sec limits; cat /proc/$me/limits
sec fds; for fd in 0 1 2; do echo "$fd $(readlink /proc/$me/fd/$fd)"; done
[ -t 0 ] && busybox stty -a
sec oom; cat /proc/$me/oom_score_adj
sec umask; umask
[ "$1" = -e ] && { sec end; exit 0; }
sec pid; echo "$me"; busybox tr '\000' ' ' </proc/1/cmdline; echo
sec hostname; hostname
sec domainname; cat /proc/sys/kernel/domainname
for f in /etc/hosts /etc/resolv.conf /etc/hostname; do sec "file:$f"; cat $f; done
sec mounts; cat /proc/$me/mountinfo
sec dev; ls -lnA /dev
sec ns; for n in cgroup ipc mnt net pid user uts; do echo "$n $(readlink /proc/$me/ns/$n)"; done
sec cgroup
for f in memory/memory.limit_in_bytes memory/memory.memsw.limit_in_bytes \
  memory/memory.soft_limit_in_bytes memory/memory.swappiness memory/memory.oom_control \
  cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us cpu/cpu.shares cpuset/cpuset.cpus pids/pids.max \
  devices/devices.list memory.max memory.swap.max memory.low cpu.max cpu.weight pids.max; do
  [ -r /sys/fs/cgroup/$f ] && busybox sed "s|^|$f |" /sys/fs/cgroup/$f
done
sec sysctl
for f in net/ipv4/ip_unprivileged_port_start net/ipv4/ping_group_range net/ipv4/ip_forward \
  net/core/somaxconn net/ipv4/tcp_syncookies kernel/msgmax kernel/shmmax kernel/sem fs/mqueue/msg_max; do
  [ -r /proc/sys/$f ] && echo "$f $(cat /proc/sys/$f)"
done
sec net; ip -o addr; ip route
sec tree
for d in /data /seed /vol; do
  [ -e $d ] && find $d -exec stat -c '%n %F %a %u:%g' {} \; 2>/dev/null | sort
done
sec write
for d in / /etc /tmp /run /data /vol /dev /dev/shm /dev/mqueue /proc /sys /sys/fs/cgroup; do
  [ -d $d ] || continue
  if (: >$d/.w) 2>/dev/null; then rm $d/.w; echo "$d yes"; else echo "$d no"; fi
done
for f in /etc/hosts /etc/resolv.conf /etc/hostname /proc/sys/kernel/msgmax /proc/sys/net/ipv4/ip_forward \
  /proc/sysrq-trigger /proc/irq/default_smp_affinity; do
  [ -e $f ] || continue
  if (: >>$f) 2>/dev/null; then echo "$f yes"; else echo "$f no"; fi
done
sec masked
for f in /proc/kcore /proc/keys /proc/timer_list /proc/interrupts /sys/firmware /proc/acpi /proc/scsi \
  /sys/devices/virtual/powercap; do
  [ -e $f ] || continue
  if [ -d $f ]; then [ -z "$(ls -A $f 2>/dev/null)" ] && echo "$f empty" || echo "$f there"
  else [ -c $f ] && echo "$f masked" || echo "$f there"; fi
done
sec calls
try() {
  n=$1; shift
  out=$("$@" 2>&1 >/dev/null </dev/null); code=$?
  echo "$n $code $out" | busybox head -n 1
}
try mount mount -t tmpfs none /srv
try unshare-user busybox unshare -U true
try unshare-mount busybox unshare -m true
try unshare-net busybox unshare -n true
try chroot busybox chroot / true
try mknod busybox mknod /dev/probe-node c 1 3
try mknod-disk busybox mknod /dev/probe-disk b 8 0
touch /dev/shm/probe-file 2>/dev/null
try chown chown 7:7 /dev/shm/probe-file
try setuid busybox su user -c true
try nice busybox renice -n -5 $me
try ionice busybox ionice -c 1 true
try dummy ip link add probe0 type dummy
try ping busybox ping -c 1 -W 1 127.0.0.1
try dmesg busybox dmesg -s 16
try swapoff busybox swapoff /nothing
try adjtimex busybox adjtimex
try taskset busybox taskset 1 true
try kill-init kill -0 1
try sethostname hostname probed
for s in TERM INT HUP QUIT USR1 USR2 WINCH 37; do trap "echo '@@ signal'; echo $s; exit 7" $s; done
sec end
# One that ends in its first second has failed to start, for svc.
case $1 in exit:*) sleep 2; exit "$(echo "$1" | cut -d: -f2)";; esac
while :; do sleep 60 & wait $!; done
`;
