/** Trees from outside that one build has opened; each is fetched once. */
import { SvcError } from "../../base/errors.ts";
import type { Tree } from "../context/tree.ts";
import type { AgentSource, OpenTree } from "../inputs.ts";
import type { TreeSource, TreeTools, TreeVertex } from "../plan/graph.ts";
import { AgentSocket } from "./agent_socket.ts";
import { noteKey } from "./keys.ts";
import type { CacheRecords } from "./records.ts";
import type { Reporter } from "./reporter.ts";
import type { Workspace } from "./workspace.ts";

export interface TreesDeps {
  workspace: Workspace;
  records: CacheRecords;
  ssh?: AgentSource;
  /** Most bytes of one download, and of one archive unpacked. */
  maxBytes?: number;
  maxUnpackedBytes?: number;
  /** As {@linkcode TreeTools} has it. */
  checked?: boolean;
  /** Aborted when the build ends; stops fetches. */
  signal: AbortSignal;
}

/** Names a tree in events and errors. */
export type Fetching = Pick<TreeVertex, "id" | "text" | "tree">;

export class Trees implements AsyncDisposable {
  #deps: TreesDeps;
  #identities = new Map<TreeSource, Promise<string | undefined>>();
  #trees = new Map<TreeSource, Promise<OpenTree>>();

  constructor(deps: TreesDeps) {
    this.#deps = deps;
  }

  identity(vertex: TreeVertex, reporter: Reporter): Promise<string | undefined> {
    let known = this.#identities.get(vertex.tree);
    if (!known) {
      reporter.step(vertex.id, { type: "start" });
      known = vertex.tree.identity(this.#tools(vertex, reporter));
      this.#identities.set(vertex.tree, known);
    }
    return known;
  }

  async open(vertex: Fetching, reporter?: Reporter): Promise<Tree> {
    let known = this.#trees.get(vertex.tree);
    if (!known) {
      if (!reporter) {
        throw new SvcError("internal", `Cannot open ${vertex.text}: it was not opened for its key`);
      }
      reporter.step(vertex.id, { type: "start" });
      known = vertex.tree.open(this.#tools(vertex, reporter));
      this.#trees.set(vertex.tree, known);
    }
    return await known;
  }

  #tools(vertex: Fetching, reporter: Reporter): TreeTools {
    const { workspace, records, ssh, maxBytes, maxUnpackedBytes, checked, signal } = this.#deps;
    return {
      ...(maxBytes !== undefined && { maxBytes }),
      ...(maxUnpackedBytes !== undefined && { maxUnpackedBytes }),
      ...(checked && { checked }),
      temporary: () => workspace.temporary(),
      notes: {
        get: (key) => records.link(noteKey(key)),
        put: (key, note) => records.putLink(noteKey(key), note),
      },
      ...(ssh?.has("default") && {
        agent: async () => {
          const held = await workspace.temporary();
          const socket = AgentSocket.listen(`${held.path}/agent`, ssh, "default", signal);
          return {
            path: socket.path,
            [Symbol.asyncDispose]: async () => {
              await socket[Symbol.asyncDispose]();
              await held[Symbol.asyncDispose]();
            },
          };
        },
      }),
      onProgress: (label, current, total) =>
        reporter.step(vertex.id, { type: "progress", label, current, ...(total && { total }) }),
      signal,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const opened = await Promise.allSettled(this.#trees.values());
    for (const tree of opened) {
      if (tree.status === "fulfilled") await tree.value[Symbol.asyncDispose]();
    }
  }
}
