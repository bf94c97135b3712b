/** Keys of what COPY, ADD and bind mounts take, and the trees they take it from. */
import { select, type Tree } from "../context/tree.ts";
import { contentKey, stampKey } from "../context/tree_keys.ts";
import {
  type CopyPart,
  type CopyVertex,
  isTree,
  type Source,
  type TreeVertex,
  type Vertex,
} from "../plan/graph.ts";
import { pick, pickedContent } from "./copy_step.ts";
import type { BuildState, Engine, Outcome } from "./engine_context.ts";
import { bindLinkKey, copyLinkKey, joinedKey, SCRATCH_KEY } from "./keys.ts";
import type { Reporter } from "./reporter.ts";

export interface ContentDeps {
  engine: Engine;
  build: BuildState;
  reporter: Reporter;
  signal: AbortSignal;
  key: (vertex: Vertex) => Promise<string>;
  outcome: (vertex: Vertex) => Promise<Outcome>;
}

/** Gives `work` the files of a source. */
export async function withSource<T>(
  build: BuildState,
  from: Source,
  snapshot: string | undefined,
  work: (tree: Tree) => Promise<T>,
): Promise<T> {
  if (from === "context") return await work(build.context.tree);
  if (isTree(from)) return await work(await build.trees.open(from));
  return await work({ root: await build.views.root(snapshot), ownersKept: true });
}

export class ContentKeys {
  /** Those that this build found or made, for a cache that leaves the machine. */
  readonly links = new Map<string, string>();
  #deps: ContentDeps;
  #bound = new Map<string, Promise<string>>();

  constructor(deps: ContentDeps) {
    this.#deps = deps;
  }

  async ofCopy(vertex: CopyVertex): Promise<string> {
    if (vertex.parts.length === 0) return SCRATCH_KEY;
    return joinedKey(await Promise.all(vertex.parts.map((part) => this.#ofPart(vertex, part))));
  }

  /** Of a path that a mount binds; of a stage's, the stage itself is the key. */
  ofMount(from: Source, path: string): Promise<string> | string {
    if (from !== "context" && !isTree(from)) {
      return from === "scratch" ? SCRATCH_KEY : this.#deps.key(from);
    }
    const name = `${from === "context" ? "" : from.id} ${path}`;
    let known = this.#bound.get(name);
    if (!known) this.#bound.set(name, known = this.#ofBound(from, path));
    return known;
  }

  async #ofBound(from: "context" | TreeVertex, path: string): Promise<string> {
    const { build, signal } = this.#deps;
    const content = ({ lazy, ...tree }: Tree) => {
      const selections = select(tree, path, false);
      return lazy
        ? stampKey({ ...tree, lazy }, selections, { signal })
        : contentKey(tree, selections, { signal });
    };
    if (from === "context") return await content(build.context.tree);
    return await this.#linked(from, (identity) => bindLinkKey(identity, path), content);
  }

  /** Through the link of a tree that has a name, or by opening it. */
  async #linked(
    from: TreeVertex,
    linkOf: (identity: string) => string,
    content: (tree: Tree) => Promise<string>,
  ): Promise<string> {
    const { build, reporter } = this.#deps;
    const identity = await build.trees.identity(from, reporter);
    const find = async () => await content(await build.trees.open(from, reporter));
    if (identity === undefined) return await find();
    return await this.#through(linkOf(identity), find);
  }

  /** What a link leads to, here or in a cache of another machine; else what `find` gives, linked. */
  async #through(link: string, find: () => Promise<string>): Promise<string> {
    const { engine: { records }, build } = this.#deps;
    let known = build.noCache ? undefined : await records.link(link);
    if (known === undefined) {
      known = build.noCache ? undefined : build.imported?.link(link);
      known ??= await find();
      await records.putLink(link, known);
    }
    this.links.set(link, known);
    return known;
  }

  /**
   * What one part copies. Of another stage that is known only when it is there; once it was, a link leads
   * from the stage's key to it, and the stage need not run to know it again.
   */
  async #ofPart(vertex: CopyVertex, part: CopyPart): Promise<string> {
    const { build, signal } = this.#deps;
    const { from } = part;
    const picked = (tree: Tree) => {
      const ignore = from === "context" ? build.context.ignore : undefined;
      return pickedContent(tree, vertex, pick(tree, vertex, part, ignore), signal);
    };
    if (from === "context" || from === "scratch") {
      return await withSource(build, from, undefined, picked);
    }
    if (isTree(from)) {
      return await this.#linked(from, (identity) => copyLinkKey(vertex, part, identity), picked);
    }
    const link = copyLinkKey(vertex, part, await this.#deps.key(from));
    return await this.#through(link, async () => {
      const { snapshot } = await this.#deps.outcome(from);
      return await withSource(build, from, snapshot, picked);
    });
  }
}
