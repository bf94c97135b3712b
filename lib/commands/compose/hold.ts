/**
 * Applies services of a project, and has the agent hold what needs this machine: files that are mounted from here,
 * egress through it, credentials that are made on it, and ports where the server is elsewhere.
 */
import { type AgentClient, openAgent } from "../../agent/client.ts";
import { type HeldStatus, placeOf } from "../../agent/protocol.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { ApplyResult, DeploymentStatus } from "../../api/deployment.ts";
import type { DeliveredFile } from "../../api/delivered_files.ts";
import { isRelayed, routesOf } from "../../api/egress.ts";
import { SvcError } from "../../base/errors.ts";
import {
  applyDeployment,
  type ApplySettings,
  deleteDeployment,
  getDeployment,
  powerDeployment,
} from "../../client/deployments.ts";
import { callerMounts } from "../../compose/service_storage.ts";
import { isUp } from "../../compose/state.ts";
import type { Subject } from "../../compose/subject.ts";
import { agentThere } from "../daemon/release.ts";
import { type Beginning, describe, type ForwardedPort, type Work } from "../daemon/work.ts";
import { withLogins } from "../deploy_logins.ts";
import { digestOf } from "./images.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { Session } from "./session.ts";

/** Local ports are for this machine alone, whatever address the server publishes them at. */
const LOCAL = "127.0.0.1";

type Mounts = ReturnType<typeof callerMounts>;

export interface Applying {
  subject: Subject;
  spec: DeploySpec;
  files?: DeliveredFile[];
  settings: ApplySettings;
  /** True: for one run, of `svc compose run`. */
  once?: boolean;
  onProgress: (message: string) => void;
}

/** True where only a session can do it: this machine has a part in it while the workload runs. */
function needsSession({ egress, credentials }: DeploySpec): boolean {
  return (credentials?.sources.length ?? 0) > 0 ||
    egress !== undefined && isRelayed(egress) && routesOf(egress).includes("client");
}

/** The server is on this machine and refuses these folders: they can be mounted as the caller's own. */
async function canServe(error: unknown, mounts: Mounts): Promise<boolean> {
  const refused = error instanceof SvcError && error.detail?.bindSource !== undefined;
  if (!refused || Deno.build.os === "windows") return false;
  const kinds = mounts.map(async ({ source }) => {
    const { isFile, isDirectory } = await Deno.stat(source);
    return isFile || isDirectory;
  });
  return (await Promise.all(kinds).catch(() => [false])).every(Boolean);
}

export class Applier {
  readonly #invocation: ProjectInvocation;
  readonly #session: Session;
  /** Deployments that there were before. */
  readonly #there: ReadonlySet<string>;
  readonly #held: readonly HeldStatus[];
  #agent: AgentClient | undefined;

  private constructor(
    invocation: ProjectInvocation,
    session: Session,
    there: readonly DeploymentStatus[],
    held: readonly HeldStatus[],
  ) {
    this.#invocation = invocation;
    this.#session = session;
    this.#there = new Set(there.map(({ name }) => name));
    this.#held = held;
  }

  static async open(
    invocation: ProjectInvocation,
    session: Session,
    there: readonly DeploymentStatus[],
  ): Promise<Applier> {
    const held = (await (await agentThere(invocation))?.status())?.held ?? [];
    return new Applier(invocation, session, there, held);
  }

  #isHeld(name: string): boolean {
    const { server } = this.#session.connection.target;
    return this.#held.some((one) =>
      one.kind === "session" && one.name === name && one.server === server
    );
  }

  async apply(applying: Applying): Promise<ApplyResult> {
    const { subject, spec } = applying;
    const { localFolders } = subject.surroundings;
    const mounts = callerMounts(subject);
    const held = this.#isHeld(spec.name);
    if (needsSession(spec) || mounts.length > 0 && (held || !localFolders)) {
      return await this.#forwarded(applying, await this.#inSession(applying, mounts));
    }
    if (held) await this.#release(spec.name);
    try {
      return await this.#forwarded(applying, await this.#plain(applying));
    } catch (error) {
      if (!localFolders || !await canServe(error, mounts)) throw error;
      return await this.#forwarded(applying, await this.#inSession(applying, mounts));
    }
  }

  async #plain({ spec, files, settings, onProgress }: Applying): Promise<ApplyResult> {
    const { io, env } = this.#invocation;
    const { client } = this.#session;
    const body = await withLogins({ name: spec.name, spec, files }, { client, env, io });
    return await applyDeployment(client, body, onProgress, settings);
  }

  async #inSession(
    { spec, files, settings: { until, recreate }, once, onProgress, subject }: Applying,
    mounts: Mounts,
  ): Promise<ApplyResult> {
    const { client, connection: { target } } = this.#session;
    const { name, image } = spec;
    if (this.#there.has(name) && !this.#isHeld(name)) await deleteDeployment(client, name);
    const { tokenCache } = this.#invocation.values;
    const body = { name, spec: { ...spec, mounts: [] }, ...(files && { files }) };
    const work = {
      ...{ target, tokenCache, body, mounts, credentials: [], conduit: false },
      ...(once && { once }),
    };
    const begin = { until };
    const hold = (again?: boolean) =>
      this.#hold({ name, kind: "session", work, begin }, subject, { again, onProgress });
    const { same, value } = await hold(recreate);
    if (!same) return (value as { result: ApplyResult }).result;
    const deployment = await getDeployment(client, name);
    const digest = await digestOf(this.#session.connection, this.#invocation, image);
    if (digest !== undefined && digest !== deployment.imageDigest) {
      const { result } = (await hold(true)).value as { result: ApplyResult };
      return { ...result, action: "replaced" };
    }
    if (until === "created" || deployment.instances.every(isUp)) {
      return { action: "unchanged", deployment };
    }
    return { action: "unchanged", deployment: await powerDeployment(client, name, "start") };
  }

  /** Where the server is elsewhere, its published ports are reached on this machine too. */
  async #forwarded(
    { subject, spec: { name }, onProgress }: Applying,
    result: ApplyResult,
  ): Promise<ApplyResult> {
    if (subject.surroundings.localFolders || Deno.build.os === "windows") return result;
    const { connection: { target } } = this.#session;
    const byKey = new Map<string, ForwardedPort>();
    for (const { host, container, protocol } of result.deployment.ports) {
      if (protocol === "sctp") continue;
      byKey.set(`${host}/${protocol}`, { container, protocol, address: LOCAL, local: host });
    }
    if (byKey.size === 0) return result;
    const { tokenCache } = this.#invocation.values;
    const work = { target, tokenCache, ports: [...byKey.values()] };
    await this.#hold({ name, kind: "ports", work }, subject, { onProgress });
    return result;
  }

  async #hold(
    work: { name: string; begin?: Beginning } & Work,
    { loaded }: Subject,
    options: { again?: boolean; onProgress: (message: string) => void },
  ) {
    const { io, env } = this.#invocation;
    this.#agent ??= await openAgent({ env, signal: io.signal });
    const project = loaded.project.name;
    const description = describe(this.#invocation, work.work, { ...work, project });
    return await this.#agent.hold(description, options);
  }

  async #release(name: string): Promise<void> {
    const { connection: { target } } = this.#session;
    await (await agentThere(this.#invocation))?.release({ place: placeOf(target), name });
  }
}
