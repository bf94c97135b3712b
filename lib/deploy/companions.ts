/** What companions have in common on every engine. */
import { SvcError } from "../base/errors.ts";
import type { AgentConnect } from "./caps.ts";
import type { Caretakers, Roles } from "./caretakers.ts";

/** How a backend is given companions. */
export interface CompanionOptions {
  caretakers: Caretakers;
  /** The variable by which every instance gets a companion. */
  variable: string;
  /** True where that is set. */
  always: boolean;
  /** False: they have the roles of every companion, and no others. Default: true. */
  moreRoles?: boolean;
}

/** The instance that a companion is beside. */
export interface Accompanied {
  key: string;
  /** "web-0" */
  id: string;
  /** Of its companion; absent: it has none. */
  roles?: Roles;
}

/** Processes and threads that a companion may have. */
export const COMPANION_PIDS = 256;

/** Milliseconds until a companion has to be attached. */
export const ATTACH_MS = 60_000;

/** The roles of every companion. `folder`: of sockets, in the companion and in the workload. */
export const rolesOfAll = (folder: string): Roles => ({ portForward: {}, agentRelay: { folder } });

/** `words`: what the companion said last. */
export function notAttached(deployment: string, id: string, words: string): SvcError {
  return new SvcError(
    "deploy_failed",
    `Cannot deploy ${deployment}: the companion of ${id} does not attach to this server${
      words && `: ${words}`
    }`,
    {
      help: "check that workloads reach SVC_ADVERTISE_URL, and that SVC_AGENT_IMAGE is of this " +
        "server's version (svc image agent)",
    },
  );
}

/** The instance's companion. Throws `conflict` where there is none with that role. */
export function companionWith({ key, id, roles }: Accompanied, role: string): string {
  if (roles && role in roles) return key;
  throw new SvcError("conflict", `Cannot reach ${id}: it was deployed without a companion`, {
    help: "deploy it again",
  });
}

/** See the ability `agent`. */
export async function forwardedAgent(
  caretakers: Caretakers,
  instance: Accompanied,
  { connect, signal }: { connect: AgentConnect; signal?: AbortSignal },
) {
  const key = companionWith(instance, "agentRelay");
  const forwarded = await caretakers.forwardAgent(key, connect, signal);
  return {
    path: forwarded.path,
    instance: instance.id,
    [Symbol.asyncDispose]: () => forwarded[Symbol.asyncDispose](),
  };
}
