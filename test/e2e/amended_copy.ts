/** An engine and a caller whose folder is a table, for COPYs of what was copied before. */
import assert from "node:assert/strict";
import type { BuildRequest } from "../../lib/build/builder.ts";
import { chainIDs } from "../../lib/snapshot/unpack.ts";
import { requireTools } from "./harness.ts";
import { layerEntries } from "../contract/builder.ts";
import { EARLY, Table } from "../contract/caller_table.ts";
import { type EngineFixture, openNewEngine } from "../contract/engine_fixture.ts";

const { ignore } = requireTools({ root: true, commands: ["runc"], files: ["/bin/busybox"] });

export class World implements AsyncDisposable {
  table = new Table();
  /** Snapshots that began with another one's changes. */
  amended = 0;

  /** `plain`: another one, which copies everything each time. */
  private constructor(readonly engine: EngineFixture, readonly plain: EngineFixture) {
    const { snapshotter } = engine;
    const prepare = snapshotter.prepare.bind(snapshotter);
    snapshotter.prepare = async (id, parent, options) => {
      const active = await prepare(id, parent, options);
      if (options?.amend !== undefined) this.amended++;
      return active;
    };
  }

  static async open(files: number): Promise<World> {
    const world = new World(await openNewEngine(), await openNewEngine());
    for (let n = 0; n < files; n++) {
      const mtime = EARLY + n;
      world.table.set(`src/d${n % 20}/f${n}`, { type: "file", text: `file ${n}\n`, mtime });
    }
    return world;
  }

  /** The image's diff IDs. */
  async build(
    dockerfile: string,
    options: Partial<BuildRequest> = {},
    engine = this.engine,
  ): Promise<string[]> {
    const tags = options.tags ?? ["result"];
    await engine.builder.build({
      tags,
      dockerfile: "Dockerfile",
      buildArgs: {},
      labels: {},
      noCache: false,
      context: { tree: this.table, dockerfile, ignore: "", received: () => 0 },
      ...options,
    }, { onEvent: () => {} });
    const { config } = await engine.images.image(tags[0]);
    return config.rootfs.diff_ids;
  }

  /** Without what is known of earlier builds. */
  whole(dockerfile: string, options: Partial<BuildRequest> = {}): Promise<string[]> {
    return this.build(dockerfile, { ...options, noCache: true }, this.plain);
  }

  /** Builds with and without what is known of earlier builds: the same layers. */
  async same(dockerfile: string): Promise<void> {
    const diffIDs = await this.build(dockerfile);
    const whole = await this.whole(dockerfile);
    assert.deepEqual(await lastLayer(this.engine), await lastLayer(this.plain));
    assert.deepEqual(await files(this.engine, diffIDs), await files(this.plain, whole));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const engine of [this.engine, this.plain]) {
      await engine.assertClean();
      await engine[Symbol.asyncDispose]();
    }
  }
}

async function lastLayer({ images }: EngineFixture) {
  const { manifest } = await images.image("result");
  const entries = [...layerEntries(images, manifest.layers.at(-1)!.digest).values()];
  return entries.map((entry) => ({
    ...entry,
    mtime: entry.mtime < CLOCK ? entry.mtime : "now",
  }));
}

/** Later times are the clock's. */
const CLOCK = EARLY + 1_000_000;

/** Files below /app as a step would see them. */
async function files({ snapshotter, folder }: EngineFixture, diffIDs: string[]): Promise<string[]> {
  const target = `${folder}/looked-at`;
  await using _view = await snapshotter.view(chainIDs(diffIDs).at(-1)!, target);
  const output = await new Deno.Command("find", {
    args: [`${target}/app`, "-printf", "%P %y %m %U:%G %T@ %s %l\\n"],
  }).output();
  const text = new TextDecoder().decode(output.stdout);
  return text.replace(/ (\d{10})\.\d+ /g, (whole, time) => Number(time) < CLOCK ? whole : " now ")
    .split("\n").sort();
}

/** A test in a world of its own. */
export const test = (name: string, fn: (world: World) => Promise<void>) =>
  Deno.test({
    name: `amended copy: ${name}`,
    ignore,
    fn: async () => {
      await using world = await World.open(260);
      await fn(world);
    },
  });

export const DOCKERFILE = "FROM base\nWORKDIR /app\nCOPY src src\n";
