import { openFsStore } from "../../backends/store/fs.ts";
import { openMemStore } from "../../backends/store/mem.ts";
import { crashContract } from "./crash.ts";

const inMemory = () => {
  const store = openMemStore();
  return Promise.resolve({
    store,
    reopen: () => Promise.resolve(store),
    cleanup: () => Promise.resolve(),
  });
};

crashContract("crash over mem", inMemory);
crashContract("crash over a shared store", inMemory, { exclusive: false });
/** Hundreds of stores are made: in memory where there is such a file system, whose sync costs nothing. */
async function fastFolder(): Promise<string> {
  const options = { prefix: "svc-crash-" };
  return await Deno.makeTempDir({ ...options, dir: "/dev/shm" }).catch(() =>
    Deno.makeTempDir(options)
  );
}

crashContract("crash over fs", async () => {
  const root = await fastFolder();
  let store = await openFsStore(root);
  return {
    store,
    reopen: async () => {
      await store[Symbol.asyncDispose]();
      return store = await openFsStore(root);
    },
    cleanup: async () => {
      await store[Symbol.asyncDispose]();
      await Deno.remove(root, { recursive: true });
    },
  };
});
