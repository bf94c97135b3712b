/**
 * Crash consistency of the content store over an object store: stopped at every write step of a push, a
 * tag's move, deletes and a collection, reopened, and looked at.
 */
import assert from "node:assert/strict";
import { silent } from "../../lib/base/log.ts";
import { MEDIA } from "../../lib/oci/types.ts";
import { createContentStore } from "../../lib/store/content.ts";
import type { ContentStore } from "../../lib/store/content_store.ts";
import type { ObjectStore } from "../../lib/store/object_store.ts";
import { faultyStore, PowerCut } from "../fixtures/faulty_store.ts";
import {
  assertImage,
  assertSound,
  pushImage,
  type SmallImage,
  smallImage,
} from "../fixtures/small_images.ts";

export interface CrashUnderTest {
  store: ObjectStore;
  /** After a crash: the same data opened again. */
  reopen: () => Promise<ObjectStore>;
  cleanup: () => Promise<void>;
}

const REPOSITORY = "team/app";
/** There before the crash, and never touched. */
const KEPT = smallImage("kept", ["shared layer", "layer of kept"]);
const OLD = smallImage("old", ["shared layer", "layer of old"]);
const NEW = smallImage("new", ["shared layer", "layer of new"]);
const SIGNATURE = smallImage("signature", ["signature"], {
  subject: { mediaType: MEDIA.manifest, digest: KEPT.digest, size: KEPT.bytes.length },
});

/** What the client was told, as far as it got. */
interface Told {
  image?: SmallImage;
  tag?: { name: string; image: SmallImage };
  deleted?: SmallImage;
}

interface Scenario {
  name: string;
  run: (store: ContentStore, told: Told) => Promise<void>;
}

const SCENARIOS: Scenario[] = [
  {
    name: "push",
    run: async (store, told) => {
      await pushImage(store, REPOSITORY, NEW, ["new"]);
      told.image = NEW;
      told.tag = { name: "new", image: NEW };
    },
  },
  {
    name: "push of a referrer",
    run: async (store, told) => {
      await pushImage(store, REPOSITORY, SIGNATURE, []);
      told.image = SIGNATURE;
    },
  },
  {
    name: "moving a tag",
    run: async (store, told) => {
      await store.publish(REPOSITORY, MEDIA.manifest, KEPT.bytes, { tags: ["moving"] });
      told.tag = { name: "moving", image: KEPT };
    },
  },
  {
    name: "delete of a manifest",
    run: async (store, told) => {
      assert.equal(await store.deleteManifest(REPOSITORY, OLD.digest), true);
      told.deleted = OLD;
    },
  },
  {
    name: "collection",
    run: async (store) => {
      await store.deleteManifest(REPOSITORY, "moving");
      const { blobsDeleted, manifestsDeleted } = await store.upkeep.collect({
        idleMs: 0,
        untagged: "drop",
      });
      assert.equal(manifestsDeleted, 1);
      // The manifest's own bytes, its config and its layer; and a blob that never had a manifest.
      assert.equal(blobsDeleted, 4);
    },
  },
];

/** `exclusive` false: as if other processes wrote the store too. */
export function crashContract(
  name: string,
  open: () => Promise<CrashUnderTest>,
  { exclusive }: { exclusive?: boolean } = {},
): void {
  const over = (objects: ObjectStore, stopAt = Infinity) => {
    const faulty = faultyStore(objects, stopAt, { exclusive });
    const options = { log: silent, patienceMs: 1 };
    return { faulty, store: createContentStore(faulty.store, options) };
  };

  const seed = async (objects: ObjectStore) => {
    const { store } = over(objects);
    await pushImage(store, REPOSITORY, KEPT, ["kept"]);
    await pushImage(store, REPOSITORY, OLD, ["moving"]);
    const stray = smallImage("stray", []).config;
    const body = ReadableStream.from([new TextEncoder().encode('{"image":"stray"}')]);
    await store.putBlob(REPOSITORY, stray, body);
    await store[Symbol.asyncDispose]();
  };

  const check = async (objects: ObjectStore, told: Told) => {
    const { store } = over(objects);
    await assertSound(store);
    await assertImage(store, REPOSITORY, KEPT, "kept");
    if (told.image) await assertImage(store, REPOSITORY, told.image);
    if (told.tag) await assertImage(store, REPOSITORY, told.tag.image, told.tag.name);
    if (told.deleted) {
      assert.equal(await store.resolve(REPOSITORY, told.deleted.digest), undefined);
    }
    // And it goes on: the same push again, a collection, and still nothing is lost.
    await pushImage(store, REPOSITORY, NEW, ["new"]);
    await store.upkeep.collect({ idleMs: 0, untagged: "drop" });
    await assertSound(store);
    await assertImage(store, REPOSITORY, KEPT, "kept");
    await assertImage(store, REPOSITORY, NEW, "new");
    await store[Symbol.asyncDispose]();
  };

  for (const scenario of SCENARIOS) {
    Deno.test(`${name}: ${scenario.name}, stopped at every write`, async () => {
      let stopAt = 1;
      for (let finished = false; !finished; stopAt++) {
        const under = await open();
        try {
          await seed(under.store);
          const { faulty, store } = over(under.store, stopAt);
          const told: Told = {};
          try {
            await scenario.run(store, told);
            finished = !faulty.cut;
          } catch (error) {
            let cause: unknown = error;
            while (cause instanceof Error && !(cause instanceof PowerCut)) cause = cause.cause;
            if (!(cause instanceof PowerCut)) throw error;
          }
          // Nothing of the dead process runs on.
          await Promise.resolve(store[Symbol.asyncDispose]()).catch(() => {});
          await check(await under.reopen(), told);
        } catch (error) {
          throw new Error(`stopped at write step ${stopAt}`, { cause: error });
        } finally {
          await under.cleanup();
        }
      }
      assert.ok(stopAt > 5, `only ${stopAt} steps`);
    });
  }
}
