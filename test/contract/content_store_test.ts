/** The content store over each object store of the tree. */
import assert from "node:assert/strict";
import { openFsStore } from "../../backends/store/fs.ts";
import { openMemStore } from "../../backends/store/mem.ts";
import { silent } from "../../lib/base/log.ts";
import { digestOf } from "../../lib/oci/digest.ts";
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

Deno.test("content over fs: a file that was hashed becomes a blob", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-content-" });
  const store = over(await openFsStore(`${folder}/store`));
  try {
    const encode = (text: string) => new TextEncoder().encode(text);
    const blob = { digest: digestOf(encode("a layer")), size: 7 };
    await Deno.writeTextFile(`${folder}/layer`, "a layer");
    assert.equal(await store.adoptBlob!("a", blob, `${folder}/layer`), true);
    assert.equal(await store.hasBlob("a", blob.digest), true);
    const body = await store.get("a", blob.digest);
    assert.equal(await new Response(body!.stream() as BodyInit).text(), "a layer");
    // What is there is not looked for anywhere else.
    assert.equal(await store.adoptBlob!("b", blob, `${folder}/none`), true);
    const none = { digest: digestOf(encode("no")), size: 2 };
    await assert.rejects(store.adoptBlob!("a", none, `${folder}/none`), { name: "NotFound" });
    assert.equal(await store.hasBlob("a", none.digest), false);
  } finally {
    await store[Symbol.asyncDispose]();
    await Deno.remove(folder, { recursive: true });
  }
});
