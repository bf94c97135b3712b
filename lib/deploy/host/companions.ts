/**
 * The companions of a host engine's instances: a caretaker in a container of its own, in the network namespace of its
 * instance. It is there before the instance's process and through all its restarts, and goes when it is stopped.
 */
import { dirname, join } from "node:path";
import { COMPANION_MOUNTS, COMPANION_SESSION } from "../../api/caretaker.ts";
import type { InstanceStatus } from "../../api/deployment.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { SvcError } from "../../base/errors.ts";
import { ensureDir, exists, readJson, removeTree, writeFileAtomic } from "../../base/fs.ts";
import { sha256 } from "../../base/hash.ts";
import { type Lazy, lazy } from "../../base/lazy.ts";
import type { Logger } from "../../base/log.ts";
import { KeyedMutex } from "../../base/mutex.ts";
import type { ImageResolver, ResolvedImage } from "../../oci/resolver.ts";
import { deviceNode } from "../../runtime/device_node.ts";
import { encodeDocument } from "../../runtime/document.ts";
import { hostFacts } from "../../runtime/host_facts.ts";
import { type NetworkMode, runtimeSpec } from "../../runtime/spec.ts";
import { mount, MS, unmount } from "../../sys/mount.ts";
import { isMounted } from "../../sys/mountinfo.ts";
import type { Attachments } from "../backend.ts";
import type { AgentOptions, DeployCaps } from "../caps.ts";
import type { CaredFor, Roles } from "../caretakers.ts";
import {
  type Accompanied,
  ATTACH_MS,
  COMPANION_PIDS,
  type CompanionOptions,
  companionWith,
  forwardedAgent,
  notAttached,
  rolesOfAll,
} from "../companions.ts";
import { sweepMounts } from "../mounts/session_mounts.ts";
import type { ContainerEngine, ProcessIdentity } from "./engine.ts";
import type { HostPaths } from "./paths.ts";

/** The folder of agents' sockets, in the companion and in the workload. */
export const AGENTS = "/run/svc/agents";

/** Milliseconds before a companion that has ended is started again: the first pause, which doubles, and the longest. */
const PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 10_000;
/** Milliseconds of a run after which the pauses begin anew. */
const STEADY_MS = 10_000;
/** Milliseconds that an ended companion's report may take to arrive. */
const REPORT_MS = 500;
/** Lines of a companion that an error quotes. */
const LINES = 5;

/** An instance, its network and whose it is. */
export interface Beside extends Accompanied {
  deployment: string;
  replica: number;
  network: NetworkMode;
}

export interface HostCompanionsParts extends CompanionOptions {
  engine: ContainerEngine;
  images: Pick<ImageResolver, "resolve">;
  paths: Pick<HostPaths, "instances" | "companions">;
  log: Logger;
}

/** A companion that is to run. */
interface Meant {
  /** Milliseconds of the next pause. */
  pause: number;
  timer?: ReturnType<typeof setTimeout>;
  /** Resolves at its first end. */
  ended: PromiseWithResolvers<void>;
}

/** What is known of a companion that was made, beside its bundle. */
interface Made {
  /** Of its image and its environment. */
  config: string;
  process?: ProcessIdentity;
}

/** What a companion needs to mount files, and to make what the kernel asks it for; it is in no user namespace. */
const MOUNT_CAPABILITIES = ["SYS_ADMIN"];

const mountsFiles = (roles: Roles | undefined) => roles !== undefined && "mount" in roles;

/** An instance as its companion knows it. */
export const accompanied = (
  { id, made: { key, roles } }: { id: string; made: Pick<Accompanied, "key" | "roles"> },
): Accompanied => ({ id, key, roles });

const containerOf = (key: string) => `${key}-companion`;
const caredFor = ({ key, deployment, id }: Beside): CaredFor => ({ key, deployment, instance: id });

export class HostCompanions {
  readonly #parts: HostCompanionsParts;
  readonly #locks = new KeyedMutex();
  /** Those that are to run. */
  readonly #meant = new Map<string, Meant>();
  readonly #image: Lazy<ResolvedImage>;

  constructor(parts: HostCompanionsParts) {
    this.#parts = parts;
    const { images, caretakers } = parts;
    this.#image = lazy(() => images.resolve(caretakers.requireImage("make a companion")));
  }

  get always(): boolean {
    return this.#parts.always;
  }

  /**
   * Of new instances; undefined: they have no companions. Before anything is made, throws `prerequisite_missing`, and
   * `unsupported` where a companion would not reach this server.
   */
  rolesOf({ name, networks }: DeploySpec, { egress, companion }: Attachments): Roles | undefined {
    const { always, caretakers, variable } = this.#parts;
    if (!always) return undefined;
    caretakers.requireImage(`deploy ${name}`);
    const alone = egress
      ? `egress mode ${egress.mode}`
      : networks.some((one) => one.name === "none") && "the network none";
    if (alone) {
      throw new SvcError(
        "unsupported",
        `Cannot deploy ${name} with ${alone}: ${variable} puts a companion beside it, which would not reach this server`,
        { help: `leave it out, or start the server without ${variable}` },
      );
    }
    return { ...rolesOfAll(AGENTS), ...companion?.roles as Roles | undefined };
  }

  /** Its part of the instance's status. */
  statusOf({ key, roles }: Pick<Accompanied, "key" | "roles">): Pick<InstanceStatus, "companion"> {
    if (!roles) return {};
    return { companion: this.#parts.caretakers.serves(key) ? "attached" : "away" };
  }

  /** The folders that an instance shares with its companion. */
  shared(key: string): { agents: string; mounts: string } {
    const folder = join(this.#parts.paths.companions, key);
    return { agents: join(folder, "agents"), mounts: join(folder, "mounts") };
  }

  /** Makes them where they are missing, as after a reboot. What a companion mounts appears on the host. */
  async #share({ key, roles }: Beside): Promise<void> {
    const { agents, mounts } = this.shared(key);
    await ensureDir(agents, 0o711);
    if (!mountsFiles(roles) || await isMounted(mounts)) return;
    await ensureDir(mounts, 0o700);
    mount(mounts, mounts, "", MS.BIND);
    mount("none", mounts, "", MS.SHARED);
  }

  /** Unmounts what a companion that has ended has left on the host. */
  async #sweep(key: string): Promise<void> {
    await sweepMounts(join(this.shared(key).mounts, COMPANION_SESSION));
  }

  #bundle(key: string): string {
    return join(this.#parts.paths.instances, containerOf(key));
  }

  /** For one of an earlier server: its companion may attach. */
  expect(beside: Beside): void {
    if (beside.roles) this.#parts.caretakers.expect(caredFor(beside));
  }

  /**
   * Resolves when the companion serves. Throws `deploy_failed` with the role that did not start, or with what the
   * companion said last. `late`: beside one that runs, and waited for by nobody.
   */
  async begin(beside: Beside, { signal, late }: { signal?: AbortSignal; late?: boolean } = {}) {
    const { key, roles, deployment, id } = beside;
    if (!roles) return;
    const { always, caretakers } = this.#parts;
    // Of a server before, which had the variable set.
    if (!always) return await this.stop(key);
    this.expect(beside);
    const meant = this.#meant.get(key) ??
      { pause: PAUSE_MS, ended: Promise.withResolvers<void>() };
    this.#meant.set(key, meant);
    // Its image may be in the very engine whose backend is being opened.
    if (late) return void this.#tryRun(beside);
    await this.#run(beside);
    if (caretakers.serves(key)) return;
    const given = new AbortController();
    const limit = setTimeout(() => given.abort(), ATTACH_MS);
    // A report of its own says more than its end.
    let soon: ReturnType<typeof setTimeout> | undefined;
    void meant.ended.promise.then(() => soon = setTimeout(() => given.abort(), REPORT_MS));
    try {
      await caretakers.started(key, AbortSignal.any([given.signal, ...signal ? [signal] : []]));
    } catch (error) {
      signal?.throwIfAborted();
      if (!given.signal.aborted) throw error;
      throw notAttached(deployment, id, await this.#lastWords(key, id).catch(() => ""));
    } finally {
      clearTimeout(limit);
      clearTimeout(soon);
    }
  }

  /** Has the companion run, made anew where it is not what it has to be. */
  #run(beside: Beside): Promise<void> {
    const { key } = beside;
    return this.#locks.run(key, async () => {
      if (!this.#meant.has(key)) return;
      const { engine, caretakers } = this.#parts;
      const container = containerOf(key);
      const image = await this.#image.get();
      const env = caretakers.environment(caredFor(beside), beside.roles!);
      const config = await sha256(JSON.stringify([image.descriptor.digest, env, beside.network]));
      const made = await readJson<Made>(join(this.#bundle(key), "companion.json"));
      const same = made?.config === config;
      const state = made && await engine.state(container, made.process);
      if (same && state?.is === "running") return await this.#watch(beside, state.process);
      await engine.delete(container);
      await this.#sweep(key);
      if (same) await engine.roots.mount(container);
      else await this.#make(beside, image, env);
      await this.#share(beside);
      const { deployment, replica } = beside;
      const labels = { deployment, replica };
      const bundle = this.#bundle(key);
      const process = await engine.create({ key: container, bundle, image: image.name, labels });
      await engine.start(container);
      const now: Made = { config, process };
      await writeFileAtomic(join(bundle, "companion.json"), JSON.stringify(now), { mode: 0o600 });
      await this.#watch(beside, process);
    });
  }

  /** Its root and its document. */
  async #make(
    { key, network, roles }: Beside,
    image: ResolvedImage,
    env: Record<string, string>,
  ): Promise<void> {
    const { engine } = this.#parts;
    const container = containerOf(key);
    const bundle = this.#bundle(key);
    await engine.roots.remove(container);
    await ensureDir(bundle, 0o700);
    using tree = await engine.roots.unpack(image);
    const rootfs = await engine.roots.mount(container, tree.name);
    const { Entrypoint = [], Env = [], WorkingDir } = image.config.config ?? {};
    const facts = await hostFacts();
    const { agents, mounts } = this.shared(key);
    const files = mountsFiles(roles);
    const fuse = files && await deviceNode("/dev/fuse", "/dev/fuse", "rwm");
    const { spec } = runtimeSpec({
      rootfs,
      args: [...Entrypoint, "caretaker"],
      env: [...Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)],
      cwd: WorkingDir || "/",
      network,
      capDrop: ["ALL"],
      ...fuse && { devices: [fuse], capAdd: MOUNT_CAPABILITIES },
      readonlyRootfs: true,
      noNewPrivileges: true,
      cgroupPath: engine.cgroupPath(container),
      resources: { pids: facts.countsProcesses ? COMPANION_PIDS : undefined },
      mounts: [
        { type: "tmpfs", target: "/tmp" },
        { type: "bind", source: agents, target: AGENTS },
        ...files
          ? [{ type: "bind", source: mounts, target: COMPANION_MOUNTS, shared: true } as const]
          : [],
      ],
    }, facts);
    await Deno.writeTextFile(join(bundle, "config.json"), encodeDocument(spec), { mode: 0o600 });
  }

  async #watch(beside: Beside, process: ProcessIdentity): Promise<void> {
    const began = performance.now();
    const { engine, log } = this.#parts;
    const { key } = beside;
    const container = containerOf(key);
    engine.exits.unwatch(container);
    await engine.exits.watch(container, process, () => {
      const meant = this.#meant.get(key);
      if (!meant) return;
      meant.ended.resolve();
      if (performance.now() - began > STEADY_MS) meant.pause = PAUSE_MS;
      log.warn("a companion has ended, and is started again", { instance: beside.id });
      this.#again(beside);
    });
  }

  #again(beside: Beside): void {
    const meant = this.#meant.get(beside.key);
    if (!meant) return;
    clearTimeout(meant.timer);
    meant.timer = setTimeout(() => this.#tryRun(beside), meant.pause);
    meant.pause = Math.min(meant.pause * 2, LONGEST_PAUSE_MS);
  }

  /** Where it cannot run now, later; not where the server's settings are in the way. */
  #tryRun(beside: Beside): void {
    this.#run(beside).catch((error) => {
      this.#parts.log.warn("a companion was not started", { instance: beside.id, error });
      if (!(error instanceof SvcError) || error.code !== "prerequisite_missing") {
        this.#again(beside);
      }
    });
  }

  async #lastWords(key: string, id: string): Promise<string> {
    const { logs } = this.#parts.engine;
    const frames = await Array.fromAsync(logs.read(containerOf(key), id, { tail: LINES }));
    return frames.flat().map(({ line }) => line).join("\n").trim();
  }

  /** See {@linkcode DeployBackend.dial}. */
  dial(instance: Accompanied, port: number, protocol: "tcp" | "udp", signal?: AbortSignal) {
    const key = companionWith(instance, "portForward");
    return this.#parts.caretakers.dial(key, port, protocol, signal);
  }

  /** What instances with companions can do. Throws as `pick`. */
  abilities(
    pick: (deployment: string, instance?: string) => Accompanied,
  ): Pick<DeployCaps, "agent" | "companion" | "companionMounts" | "companionVariable"> {
    const { always, caretakers, variable: companionVariable } = this.#parts;
    if (!always) return { companionVariable };
    const more = { companion: true, companionMounts: true } as const;
    const agent = async (name: string, options: AgentOptions) =>
      await forwardedAgent(caretakers, pick(name, options.instance), options);
    return { companionVariable, agent, ...more };
  }

  /** Neither started again nor watched any more; it goes on, as when the server ends. */
  release(key: string): void {
    clearTimeout(this.#meant.get(key)?.timer);
    this.#meant.delete(key);
    this.#parts.engine.exits.unwatch(containerOf(key));
  }

  /** Ends it, until it begins again. Idempotent; missing is fine. */
  async stop(key: string): Promise<void> {
    this.release(key);
    if (!await exists(this.#bundle(key))) return;
    await this.#locks.run(key, async () => {
      await this.#parts.engine.delete(containerOf(key));
      await this.#sweep(key);
    });
  }

  /** Removes it with all that it had. Idempotent; missing is fine. */
  async remove(key: string): Promise<void> {
    await this.stop(key);
    const { engine, caretakers } = this.#parts;
    caretakers.forget(key);
    const { agents, mounts } = this.shared(key);
    await this.#sweep(key);
    while (unmount(mounts, { detach: true }));
    await removeTree(dirname(agents));
    if (!await exists(this.#bundle(key))) return;
    const container = containerOf(key);
    await engine.roots.remove(container);
    await Promise.all([engine.logs.remove(container), removeTree(this.#bundle(key))]);
  }
}
