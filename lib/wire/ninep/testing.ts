/** For tests: our 9P server and its client in one process. */
import type { Duplex } from "../duplex.ts";
import type { FileNode } from "../files/node.ts";
import { counting, duplexPair } from "../testing.ts";
import { NinepClient } from "./client.ts";
import type { NinepClientOptions } from "./client_types.ts";
import { serveNinep } from "./server.ts";

export interface Served extends AsyncDisposable {
  client: NinepClient;
  /** Round trips so far. */
  trips(): number;
  /** How often answers have come. */
  heard(): number;
}

/** Serves the node as the export "", and closes it at the end. `line`: what lies between, at the client's end. */
export async function served(
  exported: FileNode,
  { line = (near: Duplex) => near, ...options }: NinepClientOptions & {
    line?: (near: Duplex) => Duplex;
  } = {},
): Promise<Served> {
  const [near, far] = duplexPair();
  const serving = serveNinep(far, new Map([["", exported]]));
  const counted = counting(line(near));
  const client = await NinepClient.connect(counted, options);
  return {
    client,
    trips: () => counted.trips,
    heard: () => counted.heard,
    async [Symbol.asyncDispose]() {
      await near.closeWrite();
      await serving;
      client.close();
      exported.close();
    },
  };
}
