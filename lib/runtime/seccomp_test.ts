import assert from "node:assert/strict";
import { defaultSeccomp } from "./seccomp.ts";

/** How the filter's rules name a call: "no", "always", or the arguments and the error. */
function answer(name: string, capabilities: string[] = [], architecture = "x86_64"): string {
  const { syscalls } = defaultSeccomp(new Set(capabilities), architecture)!;
  const rules = syscalls.filter(({ names }) => names.includes(name));
  if (rules.length === 0) return "no";
  return rules.map(({ action, errnoRet, args }) =>
    action === "SCMP_ACT_ERRNO"
      ? `errno ${errnoRet}`
      : args?.map(({ op, value, valueTwo }) => `${op.slice(9)} ${value} ${valueTwo ?? ""}`.trim())
        .join() ?? "always"
  ).join("; ");
}

Deno.test("what no rule names is refused, whatever it is", () => {
  const { defaultAction, defaultErrnoRet } = defaultSeccomp(new Set(), "x86_64")!;
  assert.deepEqual([defaultAction, defaultErrnoRet], ["SCMP_ACT_ERRNO", 1]);
  for (
    const name of [
      ...["io_uring_setup", "keyctl", "add_key", "userfaultfd", "kexec_load", "swapon", "uselib"],
      ...["move_pages", "migrate_pages", "pivot_root", "sethostname", "a_call_of_tomorrow"],
    ]
  ) assert.equal(answer(name), "no", name);
  for (const name of ["read", "openat2", "ptrace", "futex_waitv", "landlock_restrict_self"]) {
    assert.equal(answer(name), "always", name);
  }
});

Deno.test("capabilities open the calls that they stand for", () => {
  const opened: [string, string][] = [
    ["mount", "CAP_SYS_ADMIN"],
    ["unshare", "CAP_SYS_ADMIN"],
    ["clone", "CAP_SYS_ADMIN"],
    ["bpf", "CAP_BPF"],
    ["perf_event_open", "CAP_PERFMON"],
    ["chroot", "CAP_SYS_CHROOT"],
    ["reboot", "CAP_SYS_BOOT"],
    ["init_module", "CAP_SYS_MODULE"],
    ["mbind", "CAP_SYS_NICE"],
    ["pidfd_getfd", "CAP_SYS_PTRACE"],
    ["iopl", "CAP_SYS_RAWIO"],
    ["settimeofday", "CAP_SYS_TIME"],
    ["open_by_handle_at", "CAP_DAC_READ_SEARCH"],
    ["syslog", "CAP_SYSLOG"],
  ];
  for (const [name, capability] of opened) {
    assert.notEqual(answer(name), "always", name);
    assert.equal(answer(name, [capability]), "always", name);
  }
  for (const name of ["keyctl", "io_uring_setup", "kexec_load"]) {
    assert.equal(answer(name, ["CAP_SYS_ADMIN"]), "no", name);
  }
});

Deno.test("some calls are allowed by their arguments", () => {
  assert.equal(answer("socket"), "NE 40");
  assert.equal(answer("personality"), "EQ 0; EQ 8; EQ 131072; EQ 131080; EQ 4294967295");
  assert.equal(answer("clone"), "MASKED_EQ 2114060288 0");
  assert.equal(answer("clone3"), "errno 38");
});

Deno.test("architectures have calls of their own", () => {
  assert.equal(answer("arch_prctl"), "always");
  assert.equal(answer("arch_prctl", [], "aarch64"), "no");
  assert.equal(answer("cacheflush", [], "aarch64"), "always");
  assert.equal(defaultSeccomp(new Set(), "sparc64"), undefined);
});
