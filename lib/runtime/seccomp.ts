/**
 * The default system call filter: docker's. A call that it does not name answers EPERM; a granted capability
 * allows the calls that belong to it. The tables are facts of docker 28's profile.
 */

const words = (text: string) => text.trim().split(/\s+/);

/**
 * Allowed for every container, on every architecture that has the calls. Newest first, by the numbers of i386:
 * libseccomp walks past all smaller numbers to insert a rule, and in another order a container's start takes
 * half a millisecond longer.
 */
const ALLOWED = words(`
  getxattrat listmount listxattrat mseal recv removexattrat riscv_hwprobe send setxattrat
  statmount uretprobe futex_requeue futex_wait futex_wake map_shadow_stack fchmodat2 cachestat
  futex_waitv process_mrelease memfd_secret landlock_restrict_self landlock_add_rule
  landlock_create_ruleset epoll_pwait2 faccessat2 openat2 close_range pidfd_open
  pidfd_send_signal sched_rr_get_interval_time64 futex_time64 rt_sigtimedwait_time64
  semtimedop_time64 mq_timedreceive_time64 mq_timedsend_time64 recvmmsg_time64
  io_pgetevents_time64 ppoll_time64 pselect6_time64 utimensat_time64 timerfd_settime64
  timerfd_gettime64 timer_settime64 timer_gettime64 clock_nanosleep_time64 clock_getres_time64
  clock_adjtime64 clock_gettime64 rseq io_pgetevents statx pkey_free pkey_alloc pkey_mprotect
  pwritev2 preadv2 copy_file_range mlock2 membarrier execveat memfd_create getrandom seccomp
  renameat2 sched_getattr sched_setattr process_vm_writev process_vm_readv syncfs clock_adjtime
  name_to_handle_at prlimit64 fanotify_mark rt_tgsigqueueinfo pwritev preadv inotify_init1 pipe2
  dup3 epoll_create1 eventfd2 signalfd4 timerfd_gettime timerfd_settime fallocate eventfd
  timerfd_create signalfd utimensat epoll_pwait getcpu vmsplice tee sync_file_range splice
  get_robust_list set_robust_list ppoll pselect6 faccessat sendmmsg fchmodat readlinkat symlinkat
  linkat renameat unlinkat fstatat64 futimesat recvmmsg fchownat mknodat mkdirat openat
  inotify_rm_watch inotify_add_watch inotify_init ioprio_get ioprio_set accept4 waitid
  mq_getsetattr mq_notify mq_timedreceive mq_timedsend mq_unlink mq_open fadvise64_64 utimes
  tgkill fstatfs64 statfs64 clock_nanosleep clock_getres clock_gettime timer_delete newfstatat
  timer_getoverrun timer_gettime timer_settime timer_create set_tid_address remap_file_pages
  epoll_wait epoll_ctl epoll_create exit_group fadvise64 io_cancel io_submit io_getevents
  io_destroy io_setup get_thread_area set_thread_area sched_getaffinity sched_setaffinity futex
  sendfile64 tkill fremovexattr lremovexattr removexattr flistxattr llistxattr listxattr
  fgetxattr lgetxattr getxattr fsetxattr lsetxattr setxattr readahead gettid fcntl64 getdents64
  semtimedop madvise restart_syscall mincore setfsgid32 epoll_wait_old setfsuid32 epoll_ctl_old
  setgid32 setuid32 chown32 getresgid32 setresgid32 getresuid32 setresuid32 fchown32 setgroups32
  getgroups32 setregid32 setreuid32 getegid32 geteuid32 getgid32 getuid32 lchown32 fstat64
  lstat64 stat64 ftruncate64 truncate64 mmap2 ugetrlimit vfork sendfile sigaltstack capset capget
  getcwd chown pwrite64 pread64 rt_sigsuspend rt_sigqueueinfo rt_sigtimedwait rt_sigpending
  rt_sigprocmask rt_sigaction rt_sigreturn prctl getresgid setresgid poll getresuid setresuid
  mremap nanosleep sched_rr_get_interval sched_get_priority_min sched_get_priority_max
  sched_yield sched_getscheduler sched_setscheduler sched_getparam sched_setparam munlockall
  mlockall munlock mlock fdatasync getsid writev readv msync flock _newselect getdents _llseek
  setfsgid setfsuid fchdir getpgid sigprocmask mprotect adjtimex uname sigreturn fsync ipc
  sysinfo wait4 fstat lstat stat getitimer setitimer socketcall fstatfs statfs setpriority
  getpriority fchown fchmod ftruncate truncate munmap mmap readlink symlink select setgroups
  getgroups gettimeofday getrusage getrlimit setrlimit msgctl setregid msgrcv setreuid msgsnd
  msgget shmdt semctl setsid getpgrp semop getppid semget dup2 umask setpgid fcntl getsockopt
  ioctl setsockopt socketpair getpeername getsockname getegid listen bind geteuid shutdown getgid
  recvmsg sendmsg setgid brk recvfrom sendto accept times connect pipe dup rmdir mkdir rename
  kill sync access shmctl shmat utime pause shmget alarm ptrace getuid setuid getpid lseek lchown
  chmod mknod time chdir execve unlink link creat waitpid close open write read fork exit
`);

/** Further calls by the machine's architecture. */
const ALLOWED_ON: Record<string, { profiles: string[]; names: string }> = {
  x86_64: {
    // Without x32, which kernels lack or switch off: each architecture costs a container's start 4 ms.
    profiles: ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
    names: "arch_prctl modify_ldt",
  },
  aarch64: {
    profiles: ["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
    names: "arm_fadvise64_64 arm_sync_file_range breakpoint cacheflush set_tls sync_file_range2",
  },
};

/** Further calls for containers with the capability. */
const ALLOWED_WITH: Record<string, string> = {
  CAP_BPF: "bpf",
  CAP_DAC_READ_SEARCH: "open_by_handle_at",
  CAP_PERFMON: "perf_event_open",
  CAP_SYSLOG: "syslog",
  CAP_SYS_ADMIN: `
    bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie lsm_get_self_attr
    lsm_list_modules lsm_set_self_attr mount mount_setattr move_mount open_tree perf_event_open
    quotactl quotactl_fd setdomainname sethostname setns syslog umount umount2 unshare`,
  CAP_SYS_BOOT: "reboot",
  CAP_SYS_CHROOT: "chroot",
  CAP_SYS_MODULE: "delete_module finit_module init_module",
  CAP_SYS_NICE: "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
  CAP_SYS_PACCT: "acct",
  CAP_SYS_PTRACE: "kcmp pidfd_getfd process_madvise",
  CAP_SYS_RAWIO: "ioperm iopl",
  CAP_SYS_TIME: "clock_settime clock_settime64 settimeofday stime",
  CAP_SYS_TTY_CONFIG: "vhangup",
};

/** Allowed arguments of personality(2): Linux, its 32-bit mode, each with an old version's number; or a query. */
const PERSONALITIES = [0, 0x8, 0x20000, 0x20008, 0xffffffff];

/** Flags of clone(2) that make namespaces: NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const NAMESPACE_FLAGS = 0x7e020000;

/** vsock, which reaches a hypervisor and is not divided by network namespaces. */
const AF_VSOCK = 40;

const EPERM = 1;
const ENOSYS = 38;

export interface SeccompRule {
  names: string[];
  action: string;
  errnoRet?: number;
  args?: { index: number; value: number; valueTwo?: number; op: string }[];
}

export interface SeccompProfile {
  defaultAction: string;
  defaultErrnoRet: number;
  architectures: string[];
  syscalls: SeccompRule[];
}

/** Allows the call where its first argument compares with the value by `op`. */
const allowIf = (name: string, op: string, value: number, valueTwo?: number): SeccompRule => ({
  names: [name],
  action: "SCMP_ACT_ALLOW",
  args: [{ index: 0, value, ...(valueTwo !== undefined && { valueTwo }), op }],
});

/** The filter for a container with these capabilities; undefined for an architecture it does not know. */
export function defaultSeccomp(
  capabilities: ReadonlySet<string>,
  architecture: string,
): SeccompProfile | undefined {
  const own = ALLOWED_ON[architecture];
  if (!own) return undefined;
  const names = new Set([...ALLOWED, ...words(own.names)]);
  for (const [capability, opened] of Object.entries(ALLOWED_WITH)) {
    if (capabilities.has(capability)) { for (const name of words(opened)) names.add(name); }
  }
  const syscalls: SeccompRule[] = [
    { names: [...names], action: "SCMP_ACT_ALLOW" },
    allowIf("socket", "SCMP_CMP_NE", AF_VSOCK),
    ...PERSONALITIES.map((value) => allowIf("personality", "SCMP_CMP_EQ", value)),
  ];
  if (!names.has("clone")) {
    syscalls.push(
      allowIf("clone", "SCMP_CMP_MASKED_EQ", NAMESPACE_FLAGS, 0),
      // clone3 passes its flags in memory that a filter cannot read; C libraries fall back to clone at ENOSYS.
      { names: ["clone3"], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS },
    );
  }
  return {
    defaultAction: "SCMP_ACT_ERRNO",
    defaultErrnoRet: EPERM,
    architectures: own.profiles,
    syscalls,
  };
}
