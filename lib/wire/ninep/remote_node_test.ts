/** The same files by our 9P client from our 9P server. */
import { filesContract } from "../../../test/contract/files.ts";
import { hostFolder } from "../files/host_node.ts";
import { remoteRoot } from "./remote_node.ts";
import { served } from "./testing.ts";

filesContract("files over 9P", {
  ignore: Deno.build.os !== "linux",
  open: async (path, writable) => {
    const folder = hostFolder(path, { writable });
    const ends = await served(folder);
    return Object.assign(ends, { root: await remoteRoot(ends.client, "", { writable }) });
  },
});
