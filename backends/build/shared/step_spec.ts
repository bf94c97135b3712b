/** What every executor gives a step: docker's default capabilities, devices and system call filter. */
import type { Step } from "../../../lib/build/executor.ts";
import type { HostFacts } from "../../../lib/runtime/host_facts.ts";
import { encodeDocument } from "../../../lib/runtime/document.ts";
import { runtimeSpec, type RuntimeSpecOptions, type SpecMount } from "../../../lib/runtime/spec.ts";
import { resolveUser } from "../../../lib/runtime/user.ts";
import { checkMapped } from "../../../lib/sys/userns.ts";

const HOSTNAME = "build";

function mountsOf(step: Step): SpecMount[] {
  return [
    ...step.mounts.map((mount): SpecMount => ({
      type: "bind",
      source: mount.source,
      target: mount.target,
      readOnly: mount.readOnly,
    })),
    ...step.tmpfs.map((mount): SpecMount => ({
      type: "tmpfs",
      target: mount.target,
      mode: "1777",
      // Executable, unlike in a workload: a step may build programs there and run them.
      options: ["exec"],
      ...(mount.size !== undefined && { size: mount.size }),
    })),
  ];
}

/** Without a cgroup, the process limit of the user counts: the user namespace's, for all its steps together. */
function limited(processes: number, facts: HostFacts): Partial<RuntimeSpecOptions> {
  return facts.countsProcesses
    ? { resources: { pids: processes } }
    : { rlimits: [{ name: "nproc", soft: processes, hard: processes }] };
}

/** The step's config.json. Throws `argument_invalid` for a user that the root does not have. */
export async function specText(step: Step, facts: HostFacts): Promise<string> {
  const user = await resolveUser(step.rootfs, step.user);
  checkMapped("Cannot run the step as", user.uid, user.gid);
  const env = step.env.some((entry) => entry.startsWith("HOME="))
    ? step.env
    : [...step.env, `HOME=${user.home}`];
  const { nodes = [], hooks, gids = [] } = step.devices ?? {};
  const { spec } = runtimeSpec({
    rootfs: step.rootfs,
    args: step.args,
    env,
    cwd: step.workingDir,
    user: { ...user, additionalGids: [...user.additionalGids, ...gids] },
    mounts: mountsOf(step),
    devices: nodes,
    ...(hooks && { hooks }),
    ...(step.insecure && { privileged: true }),
    hostname: step.hostname ?? HOSTNAME,
    ...(step.processes !== undefined && limited(step.processes, facts)),
    network: step.network,
  }, facts);
  return encodeDocument(spec);
}

/** 127: no such program; 126: it cannot be executed. Undefined: not the command's fault. */
export function startExitCode(message: string): number | undefined {
  if (!/\bexec(utable)?\b/.test(message)) return undefined;
  return /not found|no such file/i.test(message) ? 127 : 126;
}
