/**
 * The network namespaces of instances beside which svc runs something. The engine makes a new one with every start
 * of a container, and what runs beside it follows. Only for an engine whose containers are processes that this
 * server sees.
 */
import type { DeploySpec } from "../../../../lib/api/deploy_spec.ts";
import { SvcError } from "../../../../lib/base/errors.ts";
import type { Logger } from "../../../../lib/base/log.ts";
import { KeyedMutex } from "../../../../lib/base/mutex.ts";
import type { WorkloadNamespaces } from "../../../../lib/deploy/namespaces.ts";
import { type HeldNetns, holdNetns, ownNetns } from "../../../../lib/sys/netns.ts";
import { followRuns } from "./follow.ts";
import { type Inspected, runs } from "./inspect.ts";
import { instanceId } from "./record.ts";
import type { EngineWatch } from "./watch.ts";

/** An instance beside which something runs. */
export interface Accompanied {
  deployment: string;
  spec: DeploySpec;
  replica: number;
}

export interface EngineNamespacesParts {
  namespaces: WorkloadNamespaces;
  watch: EngineWatch;
  log: Logger;
}

/**
 * Whether the process is the container's: its control group, or the files that engines mount into a container, have
 * the container's id in their paths. The number alone says nothing: an engine elsewhere has processes of its own.
 */
async function isProcessOf(container: string, pid: number): Promise<boolean> {
  const texts = await Promise.all(
    ["cgroup", "mountinfo"].map((name) => Deno.readTextFile(`/proc/${pid}/${name}`)),
  ).catch(() => []);
  return texts.some((text) => text.includes(container));
}

/** The namespace of the container's process; undefined where that is none that this server sees. */
async function namespaceOf({ Id, State: { Pid } }: Inspected): Promise<HeldNetns | undefined> {
  if (Pid <= 0 || !await isProcessOf(Id, Pid)) return undefined;
  let held: HeldNetns;
  try {
    held = holdNetns(Pid);
  } catch {
    return undefined; // it has ended
  }
  // Asked again: another process may have got the number before the namespace was held.
  if (held.id !== ownNetns() && await isProcessOf(Id, Pid)) return held;
  held[Symbol.dispose]();
  return undefined;
}

export class EngineNamespaces implements AsyncDisposable {
  readonly #parts: EngineNamespacesParts;
  readonly #locks = new KeyedMutex();
  /** By container. */
  readonly #accompanied = new Map<string, Accompanied>();
  readonly #held = new Map<string, HeldNetns>();

  constructor(parts: EngineNamespacesParts) {
    this.#parts = parts;
  }

  /** Follows every further start of the containers. */
  follow(): Promise<void> {
    return followRuns(this.#parts.watch, ({ container }) => void this.#late(container));
  }

  /** For a container of an earlier server: {@linkcode settle} looks whether it runs. */
  expect(container: string, instance: Accompanied): void {
    this.#accompanied.set(container, instance);
  }

  /** The engine is there, again or for the first time. */
  async settle(): Promise<void> {
    await Promise.all([...this.#accompanied.keys()].map((container) => this.#late(container)));
  }

  /**
   * The container was started: resolves when everything runs beside it that should. Throws what keeps it from
   * running.
   */
  async enter(container: string, instance: Accompanied): Promise<void> {
    this.#accompanied.set(container, instance);
    await this.#enter(container);
  }

  /** The container goes: what runs beside it has ended when this resolves. Idempotent. */
  async leave(container: string): Promise<void> {
    if (!this.#accompanied.delete(container)) return;
    await this.#locks.run(container, () => this.#close(container));
  }

  /** A file of the container's namespace; undefined where nothing runs beside it. */
  pathOf(container: string): string | undefined {
    return this.#held.get(container)?.path;
  }

  /** Beside a container that runs, which goes on without it where it cannot be. */
  async #late(container: string): Promise<void> {
    if (!this.#accompanied.has(container)) return;
    try {
      await this.#enter(container);
    } catch (error) {
      const { log } = this.#parts;
      log.error("nothing runs beside an instance that should have it", { container, error });
    }
  }

  #enter(container: string): Promise<void> {
    return this.#locks.run(container, async () => {
      const { watch, namespaces } = this.#parts;
      const accompanied = this.#accompanied.get(container);
      const found = accompanied && await watch.look(container);
      if (!accompanied || !found || !runs(found)) return await this.#close(container);
      const { deployment, spec, replica } = accompanied;
      const instance = instanceId(deployment, replica);
      const now = await namespaceOf(found);
      if (!now) return await this.#unseen(container, instance);
      const before = this.#held.get(container);
      if (before?.id === now.id) now[Symbol.dispose]();
      else {
        await this.#close(container);
        this.#held.set(container, now);
      }
      const { path } = this.#held.get(container)!;
      await namespaces.opened({ deployment, spec, instance, key: container, path });
    });
  }

  /** Throws, unless the container has ended meanwhile. */
  async #unseen(container: string, instance: string): Promise<void> {
    await this.#close(container);
    const found = await this.#parts.watch.look(container);
    if (!found || !runs(found)) return;
    throw new SvcError(
      "unsupported",
      `Cannot run anything beside ${instance}: its process is none that this server sees`,
      { help: "run the server on the engine's host, where it sees the host's processes" },
    );
  }

  async #close(container: string): Promise<void> {
    const held = this.#held.get(container);
    if (!held) return;
    this.#held.delete(container);
    await this.#parts.namespaces.closed(container);
    held[Symbol.dispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#accompanied.clear();
    await Promise.all([...this.#held.keys()].map((container) => this.#close(container)));
  }
}
