/** RUN: mounts put together, the executor called, traces of mounting taken away. */
import { SvcError } from "../../base/errors.ts";
import { exists } from "../../base/fs.ts";
import { tryLstat } from "../../sys/files.ts";
import { isDirectory, locate } from "../context/rooted.ts";
import { select, type Tree } from "../context/tree.ts";
import { copyOffLoop } from "../context/worker_client.ts";
import type { BindMount, Step } from "../executor.ts";
import { type RunMount, type RunVertex, SCRIPT_FOLDER, type Source } from "../plan/graph.ts";
import type { BuildState, Engine, Outcome } from "./engine_context.ts";
import { commandFailed, OutputTail } from "./failure.ts";
import { makeMountPoints, type MountPoint, SYSTEM_POINTS } from "./mountpoints.ts";
import type { StepEvent } from "./reporter.ts";

/** Files of the host that a step with a network sees, read-only. */
const HOST_FILES = ["/etc/resolv.conf", "/etc/hosts"];

export interface RunInputs {
  /** Result of a mount's source that is a vertex. */
  outcomeOf: (from: Source) => Outcome | undefined;
  reference: number;
}

/** Everything that has to be let go when the step has ended, last one first. */
type Held = AsyncDisposableStack;

class RunStep {
  readonly binds: BindMount[] = [];
  readonly points: MountPoint[] = [...SYSTEM_POINTS];
  readonly tmpfs: { target: string; size?: number }[] = [];

  constructor(
    readonly engine: Engine,
    readonly build: BuildState,
    readonly vertex: RunVertex,
    readonly inputs: RunInputs,
    readonly held: Held,
  ) {}

  async prepare(): Promise<void> {
    const wanted = this.vertex.network === "none" ? [] : HOST_FILES;
    for (const path of wanted) {
      if (await exists(path)) this.#bind(await Deno.realPath(path), path, true, "file");
    }
    // Locks are taken in one order, so that two steps never wait for each other.
    const caches = this.vertex.mounts.filter((mount) => mount.type === "cache")
      .sort((a, b) => a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
    const folders = new Map<string, string>();
    for (const mount of caches) {
      let path = folders.get(mount.id);
      if (path === undefined) {
        const seed = mount.from === "scratch"
          ? undefined
          : { root: (await this.#tree(mount.from)).root, source: mount.source };
        path = this.held.use(await this.engine.cacheMounts.hold(mount, seed)).path;
        folders.set(mount.id, path);
      }
      this.#bind(path, mount.target, mount.readOnly, "directory");
    }
    for (const mount of this.vertex.mounts) {
      if (mount.type === "tmpfs") {
        const { target, size } = mount;
        this.tmpfs.push({ target, ...(size !== undefined && { size }) });
        this.points.push({ target, kind: "directory" });
      } else if (mount.type === "bind") await this.#bindSource(mount);
    }
    const { script } = this.vertex;
    if (script) {
      const folder = this.held.use(await this.engine.workspace.temporary());
      const path = `${folder.path}/script`;
      await Deno.writeTextFile(path, script.data);
      await Deno.chmod(path, 0o755);
      // Its folder is in /dev, which the step has of its own.
      this.binds.push({ source: path, target: `${SCRIPT_FOLDER}/${script.name}`, readOnly: true });
    }
  }

  #bind(source: string, target: string, readOnly: boolean, kind: MountPoint["kind"]): void {
    this.binds.push({ source, target, readOnly });
    this.points.push({ target, kind });
  }

  async #tree(from: Source): Promise<Tree> {
    if (from === "context") return this.build.context.tree;
    const outcome = this.inputs.outcomeOf(from);
    const view = this.held.use(await this.engine.workspace.view(outcome?.snapshot));
    return { root: view.root, ownersKept: true };
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
    if (!mount.writable) return this.#bind(found.host, mount.target, true, kind);
    // What is written is thrown away: it goes to a copy.
    const copy = this.held.use(await this.engine.workspace.temporary());
    const selections = select(tree, mount.source, false);
    await copyOffLoop(tree, selections, {
      root: copy.path,
      destination: kind === "file" ? "/copy" : "/",
      several: false,
    });
    this.#bind(kind === "file" ? `${copy.path}/copy` : copy.path, mount.target, false, kind);
  }
}

/** What a shell gets to see of the step's time; not part of the image. */
function stepEnv(vertex: RunVertex, reference: number): string[] {
  const env = [...vertex.hiddenEnv, ...vertex.env];
  const given = env.some((entry) => entry.startsWith("SOURCE_DATE_EPOCH="));
  return given ? env : [...env, `SOURCE_DATE_EPOCH=${reference}`];
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
  inputs: RunInputs,
  emit: (event: StepEvent) => void,
  signal: AbortSignal,
): Promise<void> {
  await using held = new AsyncDisposableStack();
  const run = new RunStep(engine, build, vertex, inputs, held);
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
    env: stepEnv(vertex, inputs.reference),
    workingDir: vertex.workingDir,
    user: vertex.user,
    mounts: run.binds,
    tmpfs: run.tmpfs,
    network: vertex.network,
  };
  const { exitCode } = await engine.executor.run(step, {
    signal,
    onOutput: (stream, chunk) => {
      tail.push(chunk);
      const text = decoders[stream].decode(chunk, { stream: true });
      if (text !== "") emit({ type: "output", stream, text });
    },
  });
  if (exitCode !== 0) throw commandFailed(build.file, vertex, exitCode, tail.text());
}
