/**
 * The default seccomp filter: system calls that reach outside a container or into rarely needed parts of
 * the kernel answer EPERM, unless a capability that was granted stands for them. A filter of what is
 * refused, not of what is allowed: new harmless calls work, and each refused family is named here.
 */

/** Refused whatever the capabilities: obsolete, or a way around the other rules. */
const ALWAYS = [
  "_sysctl",
  "add_key",
  "create_module",
  "get_kernel_syms",
  "io_uring_enter",
  "io_uring_register",
  "io_uring_setup",
  "keyctl",
  "nfsservctl",
  "query_module",
  "request_key",
  "sysfs",
  "userfaultfd",
  "uselib",
  "ustat",
  "vm86",
  "vm86old",
];

/** Refused unless one of the capabilities is granted. */
const UNLESS: { capabilities: string[]; names: string[] }[] = [
  {
    capabilities: ["CAP_SYS_ADMIN"],
    names: [
      "fsconfig",
      "fsmount",
      "fsopen",
      "fspick",
      "fanotify_init",
      "lookup_dcookie",
      "mount",
      "mount_setattr",
      "move_mount",
      "open_tree",
      "pivot_root",
      "quotactl",
      "quotactl_fd",
      "setns",
      "swapoff",
      "swapon",
      "umount",
      "umount2",
      "unshare",
    ],
  },
  { capabilities: ["CAP_SYS_ADMIN", "CAP_BPF"], names: ["bpf"] },
  { capabilities: ["CAP_SYS_ADMIN", "CAP_PERFMON"], names: ["perf_event_open"] },
  { capabilities: ["CAP_DAC_READ_SEARCH"], names: ["open_by_handle_at"] },
  { capabilities: ["CAP_SYS_BOOT"], names: ["kexec_file_load", "kexec_load", "reboot"] },
  {
    capabilities: ["CAP_SYS_MODULE"],
    names: ["delete_module", "finit_module", "init_module"],
  },
  {
    capabilities: ["CAP_SYS_NICE"],
    names: [
      "get_mempolicy",
      "mbind",
      "migrate_pages",
      "move_pages",
      "set_mempolicy",
      "set_mempolicy_home_node",
    ],
  },
  { capabilities: ["CAP_SYS_PACCT"], names: ["acct"] },
  { capabilities: ["CAP_SYS_PTRACE"], names: ["kcmp", "pidfd_getfd"] },
  { capabilities: ["CAP_SYS_RAWIO"], names: ["ioperm", "iopl"] },
  {
    capabilities: ["CAP_SYS_TIME"],
    names: ["clock_adjtime", "clock_settime", "settimeofday", "stime"],
  },
  { capabilities: ["CAP_SYS_TTY_CONFIG"], names: ["vhangup"] },
  { capabilities: ["CAP_SYSLOG"], names: ["syslog"] },
];

/** Flags of clone(2) that make namespaces: NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const NAMESPACE_FLAGS = [
  0x00020000,
  0x02000000,
  0x04000000,
  0x08000000,
  0x10000000,
  0x20000000,
  0x40000000,
];

const AF_VSOCK = 40;

const EPERM = 1;
const ENOSYS = 38;

const ARCHITECTURES: Record<string, string[]> = {
  x86_64: ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
  aarch64: ["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
};

export interface SeccompRule {
  names: string[];
  action: string;
  errnoRet: number;
  args?: { index: number; value: number; valueTwo?: number; op: string }[];
}

export interface SeccompProfile {
  defaultAction: string;
  architectures: string[];
  syscalls: SeccompRule[];
}

/** The filter for a container with these capabilities; undefined for an architecture it does not know. */
export function defaultSeccomp(
  capabilities: ReadonlySet<string>,
  architecture: string,
): SeccompProfile | undefined {
  const architectures = ARCHITECTURES[architecture];
  if (!architectures) return undefined;
  const refused = [...ALWAYS];
  for (const rule of UNLESS) {
    if (!rule.capabilities.some((name) => capabilities.has(name))) refused.push(...rule.names);
  }
  const syscalls: SeccompRule[] = [
    { names: refused.sort(), action: "SCMP_ACT_ERRNO", errnoRet: EPERM },
    // The way to a hypervisor: not divided by network namespaces.
    {
      names: ["socket"],
      action: "SCMP_ACT_ERRNO",
      errnoRet: EPERM,
      args: [{ index: 0, value: AF_VSOCK, op: "SCMP_CMP_EQ" }],
    },
  ];
  if (!capabilities.has("CAP_SYS_ADMIN")) {
    for (const flag of NAMESPACE_FLAGS) {
      syscalls.push({
        names: ["clone"],
        action: "SCMP_ACT_ERRNO",
        errnoRet: EPERM,
        args: [{ index: 0, value: flag, valueTwo: flag, op: "SCMP_CMP_MASKED_EQ" }],
      });
    }
    // clone3 hides its flags in memory a filter cannot read; C libraries fall back on ENOSYS.
    syscalls.push({ names: ["clone3"], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS });
  }
  return { defaultAction: "SCMP_ACT_ALLOW", architectures, syscalls };
}
