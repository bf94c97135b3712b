/**
 * COPY of a folder after any changes: what an earlier COPY made is amended, and the result is that of copying
 * all. `SVC_TEST_SEEDS=100` tries more.
 */
import assert from "node:assert/strict";
import type { BuildRequest } from "../../lib/build/builder.ts";
import { DOCKERFILE, test, type World } from "../contract/amended_copy.ts";
import { EARLY, type Entry, type Table } from "../contract/caller_table.ts";

const SEEDS = Number(Deno.env.get("SVC_TEST_SEEDS") ?? 1);
/** Changes with each seed. */
const ROUNDS = 8;

function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * below);
  };
}

/** A few changes of any kind to what is in src. */
function mutate(table: Table, random: (below: number) => number): void {
  const one = (paths: string[]) => paths[random(paths.length)];
  const inside = (type: Entry["type"]) =>
    table.paths(type).filter((path) => path.startsWith("src/"));
  const mtime = () => (EARLY + random(20_000)) * 1000;
  const text = () => "x".repeat(random(3)) + random(1000);
  const changes: (() => void)[] = [
    () => table.set(one(inside("file")), { text: text(), mtime: mtime() }),
    () => table.set(one(inside("file")), { mode: [0o600, 0o755, 0o4755, 0o444][random(4)] }),
    () => table.set(one(inside("file")), { mtime: mtime() }),
    () => table.set(one(inside("directory")), { mtime: mtime() }),
    () => table.set(one(inside("directory")), { mode: [0o700, 0o1777, 0o755][random(3)] }),
    () => table.set(`${one(inside("directory"))}/new${random(9)}`, { type: "file", text: text() }),
    () => table.set(`src/fresh${random(5)}/deep/n${random(5)}`, { type: "file", mtime: mtime() }),
    () => table.set(`src/top${random(4)}`, { type: "file", text: text(), mtime: mtime() }),
    () => table.set(`src/empty${random(3)}`, { type: "directory", mtime: mtime() }),
    () => table.set(`src/d1/link${random(3)}`, { type: "symlink", link: text(), mtime: mtime() }),
    () => table.remove(one(inside("file"))),
    () => table.remove(one(inside("directory"))),
    () => {
      const path = one(inside("file"));
      table.remove(path);
      const type = (["symlink", "directory", "file"] as const)[random(3)];
      table.set(path, { type, link: type === "symlink" ? "elsewhere" : undefined });
    },
    () => {
      const path = one(inside("directory"));
      table.remove(path);
      table.set(path, { type: "file", text: text() });
    },
    () => table.set("src", { mtime: mtime() }),
  ];
  for (let n = random(4); n >= 0; n--) changes[random(changes.length)]();
}

interface Kind {
  dockerfile: string;
  options?: Partial<BuildRequest>;
}

const KINDS: Record<string, Kind> = {
  "into a new folder": { dockerfile: DOCKERFILE },
  "into a folder that is there": { dockerfile: "FROM base\nWORKDIR /app\nCOPY src .\n" },
  "the whole context, into the root": { dockerfile: "FROM base\nWORKDIR /app\nCOPY . /\n" },
  "over files of the base": {
    dockerfile: "FROM base\nCOPY base /app/src\nCOPY --exclude=d3 --exclude=**/f1? src /app/src\n",
  },
  "by a link, with owner and mode": {
    dockerfile: `FROM base
RUN mkdir -p /app/real && ln -s ../app/real /app/link
COPY --chown=12:34 --chmod=u=rwX,go=rX src /app/link/below/here
`,
  },
  "with a reference time": {
    dockerfile: DOCKERFILE,
    options: { buildArgs: { SOURCE_DATE_EPOCH: String(EARLY + 9000) } },
  },
};

async function tried(world: World, seed: number, { dockerfile, options }: Kind): Promise<void> {
  const random = randomOf(seed);
  world.table.set("base/d5/f5", { text: "of the base" });
  world.table.set("base/d9/hidden", { text: "of the base", mtime: (EARLY + 12_000) * 1000 });
  await world.build(dockerfile, options);
  for (let round = 0; round < ROUNDS; round++) {
    mutate(world.table, random);
    // Times alone make no other key.
    const files = world.table.paths("file").filter((path) => /^src\/d[^3].*\/f2..?$/.test(path));
    world.table.set(files[random(files.length)], { text: `round ${round}` });
    await world.same(dockerfile, options);
  }
  assert.ok(world.amended >= ROUNDS / 4, `${world.amended} of ${ROUNDS}`);
}

for (let seed = 1; seed <= SEEDS; seed++) {
  for (const [name, kind] of Object.entries(KINDS)) {
    const title = `any changes give the same as copying all: ${name}, seed ${seed}`;
    test(title, (world) => tried(world, seed, kind));
  }
}
