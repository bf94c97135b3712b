/** The engine on runc and real snapshots, in a folder of its own. */
import assert from "node:assert/strict";
import { createRuncExecutor } from "../../backends/build/runc.ts";
import { silent } from "../../lib/base/log.ts";
import { type BuilderDeps, createBuilder } from "../../lib/build/engine.ts";
import { stepNetworks } from "../../lib/build/networks.ts";
import type { Entitlement } from "../../lib/api/build_entitlements.ts";
import type { ImageStore } from "../../lib/build/worker.ts";
import { createRuntime } from "../../lib/runtime/runc.ts";
import { createSnapshotter } from "../../lib/snapshot/create.ts";
import type { Snapshotter } from "../../lib/snapshot/snapshotter.ts";
import { closeIdleWorkers } from "../../lib/base/worker_pool.ts";
import { unpackImage } from "../../lib/snapshot/unpack.ts";
import { mountsUnder } from "../../lib/sys/mountinfo.ts";
import type { BuilderFixture } from "./builder.ts";
import { imagesWithBase } from "./builder_fixture.ts";

export interface EngineFixture extends BuilderFixture {
  folder: string;
  /** Opens the engine on the same data once more, as after a crash. */
  again(keepCacheBytes?: number): Promise<EngineFixture>;
  snapshotter: Snapshotter;
}

export async function openEngine(
  folder: string,
  images?: BuilderFixture["images"],
  keepCacheBytes?: number,
  entitlements?: Entitlement[],
  imageStore?: ImageStore,
  limits: Pick<BuilderDeps, "stepTimeoutMs" | "buildTimeoutMs"> = {},
): Promise<EngineFixture> {
  const known = images ?? await imagesWithBase(folder);
  const runtime = await createRuntime({ binary: "runc", root: `${folder}/state` });
  const snapshotter = await createSnapshotter({
    root: `${folder}/snapshots`,
    driver: "auto",
    log: silent,
  });
  const builder = await createBuilder({
    root: `${folder}/build`,
    snapshotter,
    executor: createRuncExecutor({ runtime, bundles: `${folder}/build/bundles` }),
    networks: stepNetworks("none"),
    images: known,
    log: silent,
    concurrency: 4,
    ...(keepCacheBytes !== undefined && { keepCacheBytes }),
    entitlements,
    imageStore,
    ...limits,
    cdiFolders: [`${folder}/cdi`],
    unpack: (image, options) => unpackImage(snapshotter, image, options),
  });
  return {
    builder,
    images: known,
    folder,
    snapshotter,
    again: (keep) => openEngine(folder, known, keep),
    assertClean: async () => {
      await builder[Symbol.asyncDispose]();
      assert.deepEqual(await mountsUnder(folder), []);
      assert.deepEqual(await runtime.list(), []);
      for (const name of ["mnt", "tmp", "contexts"]) {
        assert.deepEqual([...Deno.readDirSync(`${folder}/build/${name}`)], [], name);
      }
      for await (const { kind, name } of snapshotter.list()) {
        assert.equal(kind, "committed", `${name} is left active`);
      }
    },
    [Symbol.asyncDispose]: async () => {
      await builder[Symbol.asyncDispose]();
      closeIdleWorkers();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

export const openNewEngine = async (
  entitlements?: Entitlement[],
  imageStore?: ImageStore,
): Promise<EngineFixture> =>
  await openEngine(
    await Deno.makeTempDir({ prefix: "svc-build-" }),
    undefined,
    undefined,
    entitlements,
    imageStore,
  );
