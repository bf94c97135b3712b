/** What the agent is asked to hold: the descriptions that commands make and holders read. */
import { type Description, placeOf } from "../../agent/protocol.ts";
import type { ApplyUntil } from "../../api/deployment.ts";
import type { SpecBody } from "../../client/deployments.ts";
import type { MountSource } from "../../client/mounts/source.ts";
import type { Target } from "../../client/resolve.ts";
import type { Invocation } from "../command.ts";

/** What it takes to reach the server again. */
export interface Reaching {
  target: Target;
  tokenCache?: string;
}

/** A deploy session: the deployment lives as long as it is held. */
export interface SessionWork extends Reaching {
  body: Extract<SpecBody, { spec: unknown }>;
  /** With absolute sources. */
  mounts: readonly MountSource[];
  /** The values of --credential. */
  credentials: readonly string[];
  ghBin?: string;
  /** True: its ports are reached on this machine. */
  conduit: boolean;
  /** True: it is for one run, and not deployed again where it has ended. */
  once?: boolean;
}

/** How a session begins. */
export interface Beginning {
  /** How far its deployment is brought. One that is deployed again later is brought up as a whole. */
  until?: ApplyUntil;
}

/** A port of a deployment, and where it is reached on this machine. */
export interface ForwardedPort {
  container: number;
  protocol: "tcp" | "udp";
  address: string;
  local: number;
}

export interface ForwardWork extends Reaching {
  ports: readonly ForwardedPort[];
}

export type Work = { kind: "session"; work: SessionWork } | { kind: "ports"; work: ForwardWork };

export function describe(
  { env }: Pick<Invocation, "env">,
  { target }: Reaching,
  { name, project, ...work }: { name: string; project?: string; begin?: Beginning } & Work,
): Description {
  const own = Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return {
    ...work,
    ...{ name, ...(project !== undefined && { project }) },
    ...{ place: placeOf(target), server: target.server },
    ...{ env: Object.fromEntries(own), folder: Deno.cwd() },
  };
}
