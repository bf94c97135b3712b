/** An export of a caller as a root for a mount: known where both ends speak the version for that. */
import type { FileNode } from "../files/node.ts";
import { ERRNO, type FileError } from "../files/stat.ts";
import type { NinepClient } from "../ninep/client.ts";
import { Ahead } from "../ninep/remote_file.ts";
import { T } from "../ninep/messages.ts";
import { type RemoteNode, remoteRoot } from "../ninep/remote_node.ts";
import { Behind } from "./behind.ts";
import { takeNews } from "./messages.ts";
import { KnownNode } from "./node.ts";
import { KnownTree } from "./tree.ts";

/** The exports of one client that are known, by their numbers. */
export class KnownExports {
  readonly #trees: KnownTree[] = [];

  constructor(readonly client: NinepClient) {
    client.told = (reply) => {
      for (const news of takeNews(reply)) {
        if (news.about === "all") { for (const tree of this.#trees) tree.told(news); }
        else this.#trees[news.tree]?.told(news);
      }
    };
  }

  /**
   * The root of an export. `another` gives one more node of it. The caller closes both. `ahead`: what its files share,
   * blocks that are kept (lib/wire/blocks) for one.
   */
  async root(
    name: string,
    { writable, ahead = new Ahead() }: { writable: boolean; ahead?: Ahead },
  ): Promise<KnownRoot> {
    const { client } = this;
    const real = await remoteRoot(client, name, { writable, ahead });
    const tree = new KnownTree(client, this.#trees.length, ahead, real.id);
    tree.behind = await behindOf(client, real);
    ahead.touched = (id) => tree.touched(id);
    this.#trees.push(tree);
    const root = KnownNode.root(tree, real);
    return { root, tree, another: () => root.share() };
  }
}

/** Undefined where the caller does not do everything in its order, or nobody asked for it. */
async function behindOf(client: NinepClient, root: RemoteNode): Promise<Behind | undefined> {
  if (!root.writable || !root.ahead?.begins || !client.own) return undefined;
  const { uid, gid } = await root.stat();
  try {
    await client.ask(T.ORDER, (request) => request, () => {});
  } catch (error) {
    if ((error as FileError).errno === ERRNO.EOPNOTSUPP) return undefined;
    throw error;
  }
  return new Behind({ uid, gid });
}

export interface KnownRoot {
  root: FileNode;
  tree: KnownTree;
  another: () => FileNode;
}
