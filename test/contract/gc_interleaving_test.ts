/**
 * The collector beside pushes, deletes and other collectors, with every operation of the object store in
 * an order that a seed draws: several processes on one store, some of which stand still in the middle of
 * an operation, die, or come back when nobody expects it. What was acknowledged must be complete, and no
 * push may fail that was not given up. `SVC_TEST_SEEDS=1000` tries more.
 */
import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { openMemStore } from "../../backends/store/mem.ts";
import { SvcError } from "../../lib/base/errors.ts";
import { silent } from "../../lib/base/log.ts";
import { createContentStore } from "../../lib/store/content.ts";
import type { ContentStore } from "../../lib/store/content_store.ts";
import { digestOfKey, firstKey, MANIFESTS } from "../../lib/store/keys.ts";
import type { ManifestRecord } from "../../lib/store/publication.ts";
import type { ObjectStore } from "../../lib/store/object_store.ts";
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
const STANDSTILL_MS = 90_000;

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
  /** A push whose claims are given up may fail so, and in no other way. */
  givenUp: Set<string>;
}

const GIVEN_UP = new Set(["manifest_blob_unknown", "unavailable"]);

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
      const given = error instanceof SvcError && GIVEN_UP.has(error.code);
      if (!given || !world.givenUp.has(name)) world.failed.push(error);
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

type Collect = Parameters<ContentStore["upkeep"]["collect"]>[0];

async function collector(store: ContentStore, going: () => boolean, options: Collect) {
  while (going()) await store.upkeep.collect(options);
}

/** Digests of all blobs, and of all that manifests refer to. */
async function digestsOf(objects: ObjectStore) {
  const held = new Set<string>();
  const needed = new Set<string>();
  for await (const entry of objects.list("")) {
    if (!("key" in entry)) continue;
    const digest = digestOfKey(entry.key);
    if (digest !== undefined) held.add(digest);
    if (!entry.key.startsWith(MANIFESTS)) continue;
    const body = await objects.get(entry.key);
    const record: ManifestRecord = await new Response(body!.stream() as BodyInit).json();
    for (const item of [firstKey(entry.key).split("/")[2], ...record.references]) needed.add(item);
  }
  return { held: [...held].sort(), needed: [...needed].sort() };
}

interface Run {
  seed: number;
  processes: number;
  untagged: "keep" | "drop";
  /**
   * The first process, which only collects or only pushes, stops at a drawn write. It goes on when all
   * others have ended and what it was doing was given up; a dead one never does.
   */
  zombie?: "collector" | "pusher" | "dead pusher";
  /** Collections give up every push that they see. */
  giveUp?: boolean;
  /** How long a removal is waited for before what it may delete is copied. */
  patienceMs?: number;
}

async function run(settings: Run): Promise<void> {
  const { seed, processes, untagged, zombie, patienceMs = 5, giveUp } = settings;
  const random = randomOf(seed);
  const scheduler = new Scheduler(random);
  const names = Array.from({ length: 4 }, (_, n) => `client${n}`);
  const pusher = zombie?.endsWith("pusher") ?? false;
  // A zombie that pushes has every other client; one that collects has none.
  const first = zombie === "collector" ? 1 : 0;
  const placeOf = (n: number) => first + n % (pusher ? 2 : processes - first);
  const slow = names.filter((_, n) => pusher && placeOf(n) === 0);
  const world: World = {
    random,
    scheduler,
    acknowledged: new Set(),
    failed: [],
    givenUp: new Set(giveUp ? names : slow),
  };
  const objects = openMemStore();
  const shared = processes > 1;
  let left = zombie ? (pusher ? 1 + random(120) : 40 + random(200)) : Infinity;
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
  const clients = names.map((name, n) => client(world, stores[placeOf(n)], name, 4));
  const collect: Collect = { untagged, ...(giveUp && { idleMs: 0 }) };
  const collections = stores.map((store, process) =>
    pusher && process === 0 ? Promise.resolve() : collector(store, () => going, collect)
  );
  const others = (async () => {
    await Promise.all(clients.filter((_, n) => !slow.includes(names[n])));
    going = false;
    await Promise.all(zombie === "collector" ? collections.slice(1) : collections);
  })();
  await scheduler.drive(others);
  if (pusher) {
    scheduler.frozen.add(0);
    await scheduler.drive(stores[1].upkeep.collect({ untagged, idleMs: 0 }));
    const { held, needed } = await digestsOf(objects);
    assert.deepEqual(held, needed, "what a pusher that stands still relied on is left, or needed");
  }
  // What it was about to do comes late, and must harm nobody. If it never came so far, it does not stop any more.
  left = Infinity;
  if (zombie !== "dead pusher") {
    scheduler.frozen.clear();
    await scheduler.drive(Promise.all([...collections, ...clients]));
    await scheduler.drive(Promise.all(stores.map((store) => store[Symbol.asyncDispose]())));
  }
  assert.deepEqual(world.failed, [], "failed pushes");

  const fresh = createContentStore(wrapStore(objects, { exclusive: !shared }), { log: silent });
  const check = async () => {
    await assertSound(fresh);
    for (const { repository, image, tag } of world.acknowledged) {
      await assertImage(fresh, repository, image, tag);
    }
  };
  await check();
  await fresh.upkeep.collect({ idleMs: 0, untagged: "drop" });
  await check();
  const { held, needed } = await digestsOf(objects);
  assert.deepEqual(held, needed, "garbage is left, or something is missing");
  const kept = [...world.acknowledged].flatMap(({ image }) => [
    image.digest,
    image.config.digest,
    ...image.layers.map((layer) => layer.digest),
  ]);
  // What was tagged and not acknowledged is complete, and stays.
  if (world.givenUp.size === 0) assert.deepEqual(held, [...new Set(kept)].sort());
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
  tryAll({ processes: 3, untagged: "drop" }));

const fewer = Math.ceil(seeds / 2);

for (const untagged of ["keep", "drop"] as const) {
  const common = { processes: 3, untagged };

  Deno.test(`a collector that stands still and comes back late harms nobody, ${untagged}`, () =>
    tryAll({ ...common, zombie: "collector" }));

  Deno.test(`a pusher that is given up and comes back fails or is complete, ${untagged}`, () =>
    tryAll({ ...common, zombie: "pusher" }, fewer));

  Deno.test(`a pusher that dies leaves no garbage, ${untagged}`, () =>
    tryAll({ ...common, zombie: "dead pusher" }, fewer));

  Deno.test(`pushes that are given up at once fail or are complete, ${untagged}`, () =>
    tryAll({ ...common, giveUp: true }, fewer));
}
