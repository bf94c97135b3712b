/**
 * The collector beside pushes, deletes and other collectors, with every operation of the object store in
 * an order that a seed draws: several processes on one store, some of which stand still in the middle of
 * an operation, die, or come back when nobody expects it. What was acknowledged must be complete, and no
 * push may fail. `SVC_TEST_SEEDS=1000` tries more.
 */
import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { openMemStore } from "../../backends/store/mem.ts";
import { SvcError } from "../../lib/base/errors.ts";
import { silent } from "../../lib/base/log.ts";
import { createContentStore } from "../../lib/store/content.ts";
import type { ContentStore } from "../../lib/store/content_store.ts";
import { MEDIA } from "../../lib/oci/types.ts";
import { assertImage, assertSound, type SmallImage, smallImage } from "../fixtures/small_images.ts";
import { wrapStore } from "../fixtures/wrapped_store.ts";

/** xorshift: small, and the same everywhere. */
function randomOf(seed: number): (below: number) => number {
  let state = seed * 2654435761 >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

/** Longer than anything here waits: then it waits for what will not come. */
const STANDSTILL_MS = 30_000;

/** Lets waiting operations go on one at a time, in a drawn order. */
class Scheduler {
  #waiting: { process: number; resume: () => void }[] = [];
  /** Processes that stand still, until they are let go. */
  frozen = new Set<number>();

  constructor(private readonly random: (below: number) => number) {}

  turn(process: number): Promise<void> {
    return new Promise((resume) => this.#waiting.push({ process, resume }));
  }

  /** Until `work` has ended. */
  async drive(work: Promise<unknown>): Promise<void> {
    let ended = false;
    const done = work.finally(() => ended = true);
    done.catch(() => {});
    let moved = performance.now();
    while (!ended) {
      const ready = this.#waiting.filter(({ process }) => !this.frozen.has(process));
      if (ready.length === 0 && performance.now() - moved > STANDSTILL_MS) {
        throw new Error(`nothing has moved for ${STANDSTILL_MS} ms`);
      }
      if (ready.length > 0) {
        moved = performance.now();
        const chosen = ready[this.random(ready.length)];
        this.#waiting.splice(this.#waiting.indexOf(chosen), 1);
        chosen.resume();
      }
      await setImmediate();
    }
    await done;
  }
}

interface Acknowledged {
  repository: string;
  image: SmallImage;
  tag: string;
}

interface World {
  random: (below: number) => number;
  scheduler: Scheduler;
  /** Told to clients, and not deleted since. */
  acknowledged: Set<Acknowledged>;
  failed: unknown[];
}

const encode = (text: string) => new TextEncoder().encode(text);

/** One client: pushes images of shared layers, moves its tag, deletes some. */
async function client(world: World, store: ContentStore, name: string, rounds: number) {
  const { random, acknowledged } = world;
  const mine: Acknowledged[] = [];
  for (let round = 0; round < rounds; round++) {
    const layers = [`layer ${random(4)}`, `layer ${random(4)}`];
    const image = smallImage(`${random(3)}`, [...new Set(layers)]);
    const repository = random(2) === 0 ? name : "common";
    const tag = `${name}-${round}`;
    try {
      for (const [index, { digest, size }] of [image.config, ...image.layers].entries()) {
        if (await store.stat(repository, digest, { probe: true })) continue;
        const body = ReadableStream.from([encode(image.texts[index])]);
        const upload = await store.startUpload(repository);
        assert.equal(await upload.append(body), size);
        await upload.commit(digest);
      }
      await store.publish(repository, MEDIA.manifest, image.bytes, { tags: [tag] });
      const entry = { repository, image, tag };
      acknowledged.add(entry);
      mine.push(entry);
    } catch (error) {
      world.failed.push(error);
    }
    const victim = random(2) === 0 ? mine.shift() : undefined;
    if (!victim) continue;
    acknowledged.delete(victim);
    if (victim.repository === "common" || random(2) === 0) {
      // Others may have pushed the same manifest there.
      await store.deleteManifest(victim.repository, victim.tag);
      continue;
    }
    for (const other of [...acknowledged]) {
      if (other.repository !== name || other.image.digest !== victim.image.digest) continue;
      acknowledged.delete(other);
      mine.splice(mine.indexOf(other), 1);
    }
    await store.deleteManifest(name, victim.image.digest);
  }
}

async function collector(store: ContentStore, going: () => boolean, untagged: "keep" | "drop") {
  while (going()) await store.upkeep.collect({ untagged });
}

interface Run {
  seed: number;
  processes: number;
  untagged: "keep" | "drop";
  /** The first process stops at a drawn operation, and goes on only when all others have ended. */
  zombie?: boolean;
  /** How long a removal is waited for before its blobs are copied; one of a manifest then fails the push. */
  patienceMs?: number;
}

async function run(settings: Run): Promise<void> {
  const { seed, processes, untagged, zombie = false, patienceMs = 5 } = settings;
  const random = randomOf(seed);
  const scheduler = new Scheduler(random);
  const world: World = { random, scheduler, acknowledged: new Set(), failed: [] };
  const objects = openMemStore();
  const shared = processes > 1;
  let left = zombie ? 40 + random(200) : Infinity;
  const stores = Array.from({ length: processes }, (_, process) =>
    createContentStore(
      wrapStore(objects, {
        exclusive: !shared,
        before: async (operation) => {
          if (process === 0 && operation.writes && --left === 0) scheduler.frozen.add(0);
          await scheduler.turn(process);
        },
        after: () => scheduler.turn(process),
      }),
      { log: silent, patienceMs },
    ));
  let going = true;
  // A zombie serves nobody: what it acknowledges nobody hears.
  const serving = zombie ? stores.slice(1) : stores;
  const clients = Array.from(
    { length: 4 },
    (_, n) => client(world, serving[n % serving.length], `client${n}`, 4),
  );
  const collections = stores.map((store) => collector(store, () => going, untagged));
  const alive = zombie ? collections.slice(1) : collections;
  const others = (async () => {
    await Promise.all(clients);
    going = false;
    await Promise.all(alive);
  })();
  await scheduler.drive(others);
  // What it was about to do comes late, and must harm nobody. If it never came so far, it does not stop now.
  left = Infinity;
  scheduler.frozen.clear();
  await scheduler.drive(Promise.all(collections));
  await scheduler.drive(Promise.all(stores.map((store) => store[Symbol.asyncDispose]())));
  assert.deepEqual(world.failed, [], "failed pushes");

  const fresh = createContentStore(wrapStore(objects, { exclusive: !shared }), { log: silent });
  for (const { repository, image, tag } of world.acknowledged) {
    await assertImage(fresh, repository, image, tag);
  }
  await assertSound(fresh);
  await fresh.upkeep.collect({ idleMs: 0, untagged: "drop" });
  await assertSound(fresh);
  for (const { repository, image, tag } of world.acknowledged) {
    await assertImage(fresh, repository, image, tag);
  }
  const usage = await fresh.upkeep.usage();
  const needed = new Set(
    [...world.acknowledged].flatMap(({ image }) => [
      image.digest,
      image.config.digest,
      ...image.layers.map((layer) => layer.digest),
    ]),
  );
  // Where a collector may have died, a blob may stand as a copy only.
  if (zombie) assert.ok(usage.blobs <= needed.size, "garbage is left");
  else assert.deepEqual([usage.blobs, usage.copies], [needed.size, 0], "garbage is left");
}

const seeds = Number(Deno.env.get("SVC_TEST_SEEDS") ?? 12);

async function tryAll(settings: Omit<Run, "seed">, count = seeds): Promise<void> {
  for (let seed = 1; seed <= count; seed++) {
    try {
      await run({ ...settings, seed });
    } catch (cause) {
      const code = cause instanceof SvcError ? ` (${cause.code})` : "";
      throw new Error(`seed ${seed}${code}: ${(cause as Error).message}`, { cause });
    }
  }
}

Deno.test("gc beside pushes in one process: nothing acknowledged is lost, no push fails", () =>
  tryAll({ processes: 1, untagged: "keep" }));

Deno.test("gc beside pushes in one process, dropping what is untagged", () =>
  tryAll({ processes: 1, untagged: "drop" }));

Deno.test("gc in three processes on one store", () => tryAll({ processes: 3, untagged: "keep" }));

Deno.test("gc in three processes on one store, dropping what is untagged", () =>
  // Real waits, so fewer seeds: here collectors are slow, never dead, and worth waiting for.
  tryAll({ processes: 3, untagged: "drop", patienceMs: 20_000 }, Math.ceil(seeds / 4)));

Deno.test("a collector that stands still and comes back late harms nobody", () =>
  tryAll({ processes: 3, untagged: "keep", zombie: true }));
