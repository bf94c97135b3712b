/** Both ends of a mount with `,async` in one process, for tests. */
import { hostFolder } from "../files/host_node.ts";
import type { FileNode } from "../files/node.ts";
import { KnownExports, type KnownRoot } from "../known/export.ts";
import { NinepClient } from "../ninep/client.ts";
import { serveNinep } from "../ninep/server.ts";
import type { Duplex } from "../duplex.ts";
import { duplexPair } from "../testing.ts";
import { AheadBlocks } from "./ahead_blocks.ts";
import type { BlockBudget } from "./budget.ts";
import { Guards } from "./guards.ts";
import type { BlockOptions } from "./protocol.ts";

export const COHERENCES: Record<string, BlockOptions> = {
  classic: {},
  subhash: { subhash: true },
  defer: { defer: true },
  "subhash, defer": { subhash: true, defer: true },
  subfill: { subhash: true, subfill: true },
  "subfill, defer, 64k ahead": { subhash: true, subfill: true, defer: true, readAhead: 65536 },
};

export interface Ends extends AsyncDisposable {
  folder: string;
  root: FileNode;
  tree: KnownRoot["tree"];
  ahead: AheadBlocks;
  client: NinepClient;
  /** How often the caller was told of a change of its own that was in the way. */
  told(): number;
  /** Requests so far, by type. */
  asked: Map<number, number>;
  /** Resolves when the caller is done with the connection. */
  served: Promise<void>;
  /** Cuts the connection: nothing more arrives. */
  cut(): void;
}

export interface EndsOptions {
  budget?: BlockBudget;
  guards?: (onRefused: () => void) => Guards;
  folder?: string;
  /** Milliseconds that an answer takes, each time, or what it waits for. */
  delay?: () => number | Promise<void>;
}

/** Makes what is written arrive later, in its order. */
function late(end: Duplex, delay: () => number | Promise<void>): void {
  const write = end.write.bind(end);
  let last: Promise<unknown> = Promise.resolve();
  end.write = (bytes) => {
    const copy = bytes.slice();
    const wait = delay();
    const due = typeof wait === "number"
      ? new Promise((resolve) => setTimeout(resolve, wait))
      : wait;
    last = Promise.all([last, due]).then(() => write(copy)).catch(() => {/* it was cut */});
    return Promise.resolve();
  };
}

export async function bothEnds(
  options: BlockOptions = {},
  { budget, guards = (told) => new Guards(told), folder, delay }: EndsOptions = {},
): Promise<Ends> {
  const base = folder ?? await Deno.makeTempDir({ prefix: "svc-blocks-" });
  let told = 0;
  const exported: FileNode = hostFolder(base, {
    writable: true,
    guards: guards(() => void told++),
  });
  const [near, far] = duplexPair();
  if (delay) late(far, delay);
  const asked = new Map<number, number>();
  const write = near.write;
  near.write = (bytes) => {
    for (let at = 0; at < bytes.length;) {
      const view = new DataView(bytes.buffer, bytes.byteOffset + at);
      const type = view.getUint8(4);
      asked.set(type, (asked.get(type) ?? 0) + 1);
      at += view.getUint32(0, true);
    }
    return write(bytes);
  };
  const serving = serveNinep(far, new Map([["", exported]])).catch(() => far.reset());
  const client = await NinepClient.connect(near, { maxMessage: 1 << 20, own: true });
  const ahead = new AheadBlocks(options, budget);
  const { root, tree } = await new KnownExports(client).root("", { writable: true, ahead });
  return {
    ...{ folder: base, root, tree, ahead, client, asked },
    told: () => told,
    served: serving,
    cut: () => far.reset(),
    async [Symbol.asyncDispose]() {
      client.close();
      far.reset();
      await serving;
      exported.close();
      if (folder === undefined) await Deno.remove(base, { recursive: true });
    },
  };
}
