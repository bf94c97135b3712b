/** The content store over each object store of the tree. */
import { openFsStore } from "../../backends/store/fs.ts";
import { openMemStore } from "../../backends/store/mem.ts";
import { silent } from "../../lib/base/log.ts";
import { createContentStore } from "../../lib/store/content.ts";
import type { ObjectStore } from "../../lib/store/object_store.ts";
import { contentStoreContract } from "./content_store.ts";

const over = (objects: ObjectStore) => createContentStore(objects, { log: silent });

contentStoreContract("content over mem", () => {
  const store = over(openMemStore());
  return Promise.resolve({ store, cleanup: () => store[Symbol.asyncDispose]() });
}, { durable: false });

contentStoreContract("content over fs", async () => {
  const root = await Deno.makeTempDir({ prefix: "svc-content-" });
  const under = {
    store: over(await openFsStore(root)),
    reopen: async () => {
      await under.store[Symbol.asyncDispose]();
      return over(await openFsStore(root));
    },
    cleanup: async () => {
      await under.store[Symbol.asyncDispose]();
      await Deno.remove(root, { recursive: true });
    },
  };
  return under;
}, { durable: true });

/** Over a store that others write too, nothing may be remembered. */
contentStoreContract("content over a shared store", () => {
  const objects = openMemStore();
  const store = over(
    new Proxy(objects, {
      get: (target, key) => {
        if (key === "exclusive") return false;
        const value = Reflect.get(target, key, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    }),
  );
  return Promise.resolve({ store, cleanup: () => store[Symbol.asyncDispose]() });
}, { durable: false });
