/** The same files by our 9P client from our 9P server. */
import { filesContract } from "../../../test/contract/files.ts";
import { hostFolder } from "../files/host_node.ts";
import { duplexPair } from "../testing.ts";
import { NinepClient } from "./client.ts";
import { remoteRoot } from "./remote_node.ts";
import { serveNinep } from "./server.ts";

filesContract("files over 9P", {
  ignore: Deno.build.os !== "linux",
  open: async (path, writable) => {
    const folder = hostFolder(path, { writable });
    const [near, far] = duplexPair();
    const serving = serveNinep(far, new Map([["tree", folder]]));
    const client = await NinepClient.connect(near);
    return {
      root: await remoteRoot(client, "tree", { writable }),
      async [Symbol.asyncDispose]() {
        await near.closeWrite();
        await serving;
        client.close();
        folder.close();
      },
    };
  },
});
