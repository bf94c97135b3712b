/** The ways in which a context that is read on demand is mounted. */
import assert from "node:assert/strict";
import { createLogger } from "../../base/log.ts";
import { hasFuse } from "../../sys/fuse.ts";
import { mountsUnder } from "../../sys/mountinfo.ts";
import { LazyMount, type LazyReading } from "./lazy_mount.ts";
import type { RemoteEntry, RemoteTree } from "./remote.ts";

const linux = Deno.build.os === "linux";
const root = linux && Deno.uid() === 0;
const has9p = linux && /\t9p$/m.test(Deno.readTextFileSync("/proc/filesystems"));
const TEXT = "read on demand";

interface Mounted {
  /** What `cat` says, run by another process. */
  read: string | undefined;
  types: string[];
  log: string;
  fetched: number;
}

async function mounted(reading: LazyReading): Promise<Mounted> {
  const folder = await Deno.makeTempDir({ prefix: "svc-lazy-" });
  const lines: string[] = [];
  const log = createLogger({ level: "info", format: "text", write: (line) => lines.push(line) });
  let fetched = 0;
  const common = { mtime: 1_700_000_000, mtimeNs: 5, stamp: "s" };
  const entries: RemoteEntry[] = [
    { path: "sub", type: "directory", mode: 0o755, size: 0, ...common },
    { path: "sub/file", type: "file", mode: 0o644, size: TEXT.length, ...common },
    { path: "link", type: "symlink", mode: 0o777, size: 0, link: "sub/file", ...common },
  ];
  const remote: RemoteTree = {
    identity: "i",
    lazy: true,
    async *entries() {},
    async *read() {},
    open: () =>
      Promise.resolve({
        read: (offset, into) => {
          const bytes = new TextEncoder().encode(TEXT).subarray(offset, offset + into.length);
          fetched += bytes.length;
          into.set(bytes);
          return bytes.length;
        },
        close: () => {},
      }),
  };
  try {
    const listing = new Map(entries.map((entry) => [entry.path, entry]));
    const { signal } = new AbortController();
    await using lazy = new LazyMount(`${folder}/mount`, listing, remote, signal, { reading, log });
    const path = await lazy.mount();
    const types = (await mountsUnder(folder)).map((one) => String(one));
    if (path === undefined) return { read: undefined, types, log: lines.join(""), fetched };
    const cat = await new Deno.Command("cat", { args: [`${path}/link`] }).output();
    const read = new TextDecoder().decode(cat.stdout);
    return { read, types, log: lines.join(""), fetched };
  } finally {
    assert.deepEqual(await mountsUnder(folder), []);
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test({
  name: "lazy contexts: what the kernel refuses is told once, and the next way is taken",
  ignore: !root || has9p,
  fn: async () => {
    const first = await mounted({ ways: ["kernel", "fuse"] });
    assert.match(first.log, /the kernel's 9P client cannot mount a build context here/);
    assert.equal(first.read, hasFuse() ? TEXT : undefined);
    const again = await mounted({ ways: ["kernel"] });
    assert.deepEqual([again.read, again.types, again.log], [undefined, [], ""]);
  },
});

Deno.test({
  name: "lazy contexts: through FUSE where that is asked for",
  ignore: !root || !hasFuse(),
  fn: async () => {
    const { read, types, log, fetched } = await mounted({ ways: ["fuse"] });
    assert.deepEqual([read, types.length, log, fetched], [TEXT, 1, "", TEXT.length]);
  },
});

Deno.test({
  name: "lazy contexts: through the kernel's 9P client (needs a kernel that has it)",
  ignore: !root || !has9p,
  fn: async () => {
    const { read, types, log, fetched } = await mounted({ ways: ["kernel"], msize: 8192 });
    assert.deepEqual([read, types.length, log, fetched], [TEXT, 1, "", TEXT.length]);
  },
});

Deno.test({ name: "lazy contexts: not mounted at all", ignore: !linux }, async () => {
  const { read, types, log, fetched } = await mounted({ ways: [] });
  assert.deepEqual([read, types, log, fetched], [undefined, [], "", 0]);
});
