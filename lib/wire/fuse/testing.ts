/** For tests: a folder over our own 9P server and client, mounted, and programs that use it. */
import assert from "node:assert/strict";
import { type FuseChannel, hasFuse, openFuse } from "../../sys/fuse.ts";
import { canMount } from "../../sys/mount.ts";
import { Guards } from "../blocks/guards.ts";
import type { Duplex } from "../duplex.ts";
import { hostFolder } from "../files/host_node.ts";
import { KnownExports } from "../known/export.ts";
import { Waking } from "../known/waking.ts";
import type { Ahead } from "../ninep/remote_file.ts";
import { served } from "../ninep/testing.ts";
import { delayed } from "../testing.ts";
import { type MountedFuse, serveFuse } from "./mount.ts";

export interface Mounted {
  /** Where it is mounted, and the folder that is. */
  at: string;
  folder: string;
  /** Another one, that is not mounted. */
  beside: string;
  mount: MountedFuse;
  /** Round trips to the other side so far. */
  trips(): number;
  /** Calls of programs so far that were answered only after something came from the other side. */
  waits(): number;
}

function has(program: string): boolean {
  return (Deno.env.get("PATH") ?? "").split(":").some((folder) => {
    try {
      return Deno.statSync(`${folder}/${program}`).isFile;
    } catch {
      return false;
    }
  });
}

/** Counts the calls that wait for the other side. */
function countingWaits(channel: FuseChannel, heard: () => number) {
  const since = new Map<bigint, number>();
  const unique = (message: Uint8Array) =>
    new DataView(message.buffer, message.byteOffset).getBigUint64(8, true);
  const [next, answer] = [channel.next.bind(channel), channel.answer.bind(channel)];
  const counted = Object.assign(channel, { waits: 0 });
  channel.next = async (buffer) => {
    const request = await next(buffer);
    if (request) since.set(unique(request), heard());
    return request;
  };
  channel.answer = (bytes) => {
    const before = since.get(unique(bytes));
    since.delete(unique(bytes));
    if (before !== undefined && before < heard()) counted.waits++;
    return answer(bytes);
  };
  return counted;
}

/** What a shell says to a script that runs in the mount; it fails where one of its commands does. */
export async function run({ at, folder, beside }: Mounted, script: string): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command("sh", {
    args: ["-euc", script],
    cwd: "/",
    env: { M: at, F: folder, B: beside, LC_ALL: "C", HOME: beside, GIT_CONFIG_NOSYSTEM: "1" },
  }).output();
  assert.equal(code, 0, `${new TextDecoder().decode(stderr)}\n${new TextDecoder().decode(stdout)}`);
  return new TextDecoder().decode(stdout).trim();
}

/** A test with a folder that is mounted over 9P; it needs the programs. */
export function mountTest(
  what: string,
  programs: string[],
  fn: (mounted: Mounted) => Promise<void>,
  { writable = true, delayMs = 0, ahead }: {
    writable?: boolean;
    delayMs?: number;
    ahead?: () => Ahead;
  } = {},
): void {
  const missing = programs.filter((program) => !has(program));
  Deno.test({
    name: `fuse over 9P: ${what}${missing.length > 0 ? ` (needs ${missing.join(", ")})` : ""}`,
    ignore: !hasFuse() || !canMount() || missing.length > 0,
    fn: async () => {
      const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-programs-" }));
      const [at, folder, beside] = [`${base}/mount`, `${base}/folder`, `${base}/beside`];
      for (const path of [at, folder, beside]) await Deno.mkdir(path);
      const exported = hostFolder(folder, {
        writable,
        ...ahead && { guards: new Guards(() => {}) },
      });
      const line = (near: Duplex) => delayMs > 0 ? delayed(near, delayMs) : near;
      try {
        await using ends = await served(exported, { maxMessage: 1 << 20, own: true, line });
        const { client, trips } = ends;
        // What the kernel keeps it may keep for a moment: the folder is changed from both sides.
        const { root, tree } = await new KnownExports(client).root("", {
          writable,
          ahead: ahead?.(),
        });
        const channel = countingWaits(openFuse(at, { writable }), ends.heard);
        await using mounted = serveFuse(channel, root, {
          ...{ writable, keepMs: 20 },
          flocks: client.own,
        });
        tree.heard = new Waking(tree, mounted, at);
        await fn({ at, folder, beside, mount: mounted, trips, waits: () => channel.waits });
      } finally {
        await Deno.remove(base, { recursive: true });
      }
    },
  });
}
