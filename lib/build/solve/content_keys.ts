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

/** Calls `work` with the files of a source. */
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
  /** Links that this build used or made, for a cache export. */
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

  /** The key of a path that a mount binds. For a path of a stage it is the stage's own key. */
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

  /**
   * The content key of a tree from outside: by a link where the tree's content has a name, else by opening
   * the tree.
   */
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

  /**
   * The key that a link leads to, in this cache or an imported one. Where there is no link, `find` gives the
   * key and a link is kept.
   */
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
   * The content key of one part. For a part from a stage the stage must have run once. From then on a link
   * leads from the stage's key to the content key, and the stage need not run again for the key.
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
