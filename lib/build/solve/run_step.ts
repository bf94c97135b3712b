/** RUN: prepares the mounts, runs the command, removes what mounting left in the root. */
import { SvcError } from "../../base/errors.ts";
import { deviceAccess } from "../../runtime/cdi.ts";
import { tryLstat } from "../../sys/files.ts";
import { isDirectory, locate } from "../../sys/rooted.ts";
import { select, type Tree } from "../context/tree.ts";
import { copyOffLoop } from "../context/worker_client.ts";
import { devicesOf } from "../devices.ts";
import type { BindMount, Step } from "../executor.ts";
import { resolvConf } from "../networks.ts";
import {
  isTree,
  type RunMount,
  type RunVertex,
  SCRIPT_FOLDER,
  type Source,
} from "../plan/graph.ts";
import type { BuildState, Engine, Outcome } from "./engine_context.ts";
import { commandFailed, OutputTail } from "./failure.ts";
import { Mask } from "./mask.ts";
import { makeMountPoints, type MountPoint, SYSTEM_POINTS } from "./mountpoints.ts";
import type { StepEvent } from "./reporter.ts";
import {
  agentSocket,
  hostsText,
  readSecret,
  scratchOver,
  secretFolder,
  type SecretMount,
  type SshMount,
  writeOwned,
} from "./step_files.ts";

const RESOLVER = "/etc/resolv.conf";
const HOSTS = "/etc/hosts";

const encoder = new TextEncoder();

/** The outcome of a mount's source, where the source is a vertex. */
export type OutcomeOf = (from: Source) => Outcome | undefined;

const isInsecure = ({ needs }: RunVertex): boolean => needs.includes("security.insecure");

/** The file's text; empty where the host has no such file. */
function hostFile(path: string): string {
  try {
    // Our own: the host's file.
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

/** Resources that are released after the step, the last one first. */
type Held = AsyncDisposableStack;

class RunStep {
  readonly binds: BindMount[] = [];
  readonly points: MountPoint[] = [...SYSTEM_POINTS];
  readonly tmpfs: { target: string; size?: number }[] = [];
  /** Variables from secrets, agents and devices; not part of the key. */
  readonly env: string[] = [];
  devices?: Step["devices"];
  network: Step["network"] = "none";
  /** Values that are masked in the output. */
  readonly secrets: Uint8Array[] = [];

  constructor(
    readonly engine: Engine,
    readonly build: BuildState,
    readonly vertex: RunVertex,
    readonly outcomeOf: OutcomeOf,
    readonly held: Held,
    readonly signal: AbortSignal,
  ) {}

  async prepare(): Promise<void> {
    await this.#network();
    // All steps take the locks in the same order, so that two steps never wait for each other.
    const caches = this.vertex.mounts.filter((mount) => mount.type === "cache")
      .sort((a, b) => a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
    const folders = new Map<string, string>();
    for (const mount of caches) {
      let path = folders.get(mount.id);
      if (path === undefined) {
        const seed = mount.from === "scratch"
          ? undefined
          : await this.#seed(mount.from, mount.source);
        path = this.held.use(await this.engine.cacheMounts.hold(mount, seed)).path;
        folders.set(mount.id, path);
      }
      this.#bind(path, mount.target, mount.readOnly, "directory");
    }
    for (const mount of this.vertex.mounts) {
      if (mount.type === "tmpfs") {
        const { target, size } = mount;
        this.tmpfs.push({ target, ...(size !== undefined && { size }) });
        this.points.push({ target, kind: "directory", mode: 0o1777 });
      } else if (mount.type === "bind") await this.#bindSource(mount);
      else if (mount.type === "ssh") await this.#agent(mount);
    }
    await this.#secrets(this.vertex.mounts.filter((mount) => mount.type === "secret"));
    await this.#devices();
    const { script } = this.vertex;
    if (script) {
      const folder = this.held.use(await this.engine.workspace.temporary());
      const path = `${folder.path}/script`;
      await writeOwned(path, script.data, { mode: 0o755, uid: 0, gid: 0 });
      // The script lies in the step's own /dev, so it leaves no trace in the root.
      this.binds.push({ source: path, target: `${SCRIPT_FOLDER}/${script.name}`, readOnly: true });
    }
  }

  async #network(): Promise<void> {
    const { engine, build, vertex, signal } = this;
    const trusted = isInsecure(vertex);
    const { mode, gateway, names } = this.held.use(
      await engine.networks.take(vertex.network, { trusted, signal }),
    );
    this.network = mode;
    const texts = [
      [RESOLVER, names && resolvConf(hostFile(RESOLVER), names.nameservers)],
      [HOSTS, hostsText(vertex.hosts, { gateway, host: names ? undefined : hostFile(HOSTS) })],
    ] as const;
    for (const [target, text] of texts) {
      if (text === undefined) this.#bindHost(target);
      else this.#bind(await build.texts.path(text), target, true, "file");
    }
  }

  async #devices(): Promise<void> {
    if (this.vertex.devices.length === 0) return;
    const { file } = this.build;
    const devices = await devicesOf(this.vertex, file, this.engine.cdiFolders);
    const { env, mounts, ...rest } = await deviceAccess(devices);
    this.env.push(...env);
    for (const { source, target, readOnly, kind } of mounts) {
      this.#bind(source, target, readOnly, kind);
    }
    this.devices = rest;
  }

  async #agent(mount: SshMount): Promise<void> {
    const { engine, build, signal } = this;
    // Set whether or not there is a socket: programs look for the agent at this path.
    if (!this.env.some((entry) => entry.startsWith("SSH_AUTH_SOCK="))) {
      this.env.push(`SSH_AUTH_SOCK=${mount.target}`);
    }
    const socket = await agentSocket(mount, build.ssh, engine.workspace, signal);
    if (!socket) return;
    this.held.use(socket);
    this.#bind(socket.path, mount.target, false, "file");
  }

  async #secrets(mounts: SecretMount[]): Promise<void> {
    let folder: { path: string } | undefined;
    for (const [index, mount] of mounts.entries()) {
      const value = await readSecret(mount, this.build.secrets, this.signal);
      if (!value) continue;
      this.secrets.push(value);
      if (mount.env !== undefined) {
        this.env.push(`${mount.env}=${new TextDecoder().decode(value)}`);
      }
      if (mount.target === undefined) continue;
      folder ??= this.held.use(await secretFolder(this.engine.workspace));
      const path = `${folder.path}/${index}`;
      await writeOwned(path, value, mount);
      this.#bind(path, mount.target, true, "file");
    }
  }

  #bind(source: string, target: string, readOnly: boolean, kind: MountPoint["kind"]): void {
    this.binds.push({ source, target, readOnly });
    this.points.push({ target, kind });
  }

  /** Binds the host's file at the same path; nothing where the host has no such file. */
  #bindHost(path: string): void {
    try {
      this.#bind(Deno.realPathSync(path), path, true, "file");
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }

  async #tree(from: Source): Promise<Tree> {
    if (from === "context") return this.build.context.tree;
    if (isTree(from)) return await this.build.trees.open(from);
    const outcome = this.outcomeOf(from);
    return { root: await this.build.views.root(outcome?.snapshot), ownersKept: true };
  }

  async #seed(from: Source, source: string): Promise<{ root: string; source: string }> {
    const tree = await this.#tree(from);
    await tree.fill?.(select(tree, source, false), {});
    return { root: tree.root, source };
  }

  async #bindSource(mount: Extract<RunMount, { type: "bind" }>): Promise<void> {
    const tree = await this.#tree(mount.from);
    const found = locate(tree.root, mount.source);
    if (!tryLstat(found.host)) {
      throw new SvcError(
        "build_failed",
        `--mount=type=bind: ${JSON.stringify(mount.source)} is not in ${
          mount.from === "context" ? "the build context" : "its source"
        }`,
      );
    }
    const kind = isDirectory(found.host) ? "directory" : "file";
    const lazy = mount.writable ? undefined : await tree.lazy?.mount();
    if (lazy !== undefined) {
      const host = found.inside === "" ? lazy : `${lazy}/${found.inside}`;
      return this.#bind(host, mount.target, true, kind);
    }
    if (tree.lazy) await tree.fill?.(select(tree, mount.source, false), {});
    if (!mount.writable) return this.#bind(found.host, mount.target, true, kind);
    if (kind === "directory") {
      const scratch = await scratchOver(this.engine.workspace, found.host);
      if (scratch) return this.#bind(this.held.use(scratch).path, mount.target, false, kind);
    }
    // The step writes to a copy, which is thrown away.
    const copy = this.held.use(await this.engine.workspace.temporary());
    const selections = select(tree, mount.source, false);
    await copyOffLoop(tree, selections, {
      root: copy.path,
      destination: kind === "file" ? "/copy" : "/",
    });
    this.#bind(kind === "file" ? `${copy.path}/copy` : copy.path, mount.target, false, kind);
  }
}

/** `epoch`: SOURCE_DATE_EPOCH given for the build; a value from the image or an ARG comes first. */
function stepEnv(vertex: RunVertex, own: string[], epoch: number | undefined): string[] {
  // Proxies of the build override those of the image.
  const last = [...vertex.hiddenEnv, ...own];
  const names = new Set(last.map((entry) => entry.slice(0, entry.indexOf("="))));
  const env = vertex.env.filter((entry) => !names.has(entry.slice(0, entry.indexOf("="))));
  env.push(...last);
  const known = env.some((entry) => entry.startsWith("SOURCE_DATE_EPOCH="));
  return known || epoch === undefined ? env : [...env, `SOURCE_DATE_EPOCH=${epoch}`];
}

/**
 * Runs the command in the mounted root. Throws `build_failed` for an exit code other than 0, with the
 * last output.
 */
export async function runCommand(
  engine: Engine,
  build: BuildState,
  vertex: RunVertex,
  root: string,
  outcomeOf: OutcomeOf,
  emit: (event: StepEvent) => void,
  signal: AbortSignal,
): Promise<void> {
  await using held = new AsyncDisposableStack();
  const run = new RunStep(engine, build, vertex, outcomeOf, held, signal);
  await run.prepare();
  signal.throwIfAborted();
  const points = makeMountPoints(root, run.points);
  held.defer(() => points.remove());
  const tail = new OutputTail();
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  const step: Step = {
    id: `build-${crypto.randomUUID()}`,
    rootfs: root,
    args: vertex.args,
    env: stepEnv(vertex, run.env, build.epoch),
    workingDir: vertex.workingDir,
    user: vertex.user,
    mounts: run.binds,
    tmpfs: run.tmpfs,
    network: run.network,
    ...(run.devices && { devices: run.devices }),
    ...(engine.stepProcesses !== undefined && { processes: engine.stepProcesses }),
    ...(isInsecure(vertex) && { insecure: true }),
  };
  const masks = { stdout: new Mask(run.secrets), stderr: new Mask(run.secrets) };
  const show = (stream: "stdout" | "stderr", text: string) => {
    if (text === "") return;
    tail.push(encoder.encode(text));
    emit({ type: "output", stream, text });
  };
  const { exitCode } = await engine.executor.run(step, {
    signal,
    onOutput: (stream, chunk) =>
      show(stream, masks[stream].push(decoders[stream].decode(chunk, { stream: true }))),
  });
  for (const stream of ["stdout", "stderr"] as const) show(stream, masks[stream].flush());
  if (exitCode !== 0) throw commandFailed(build.file, vertex, exitCode, tail.text());
}
