/**
 * One piece of the listener by itself: two executables that differ in nothing else, the rows of the registry
 * in turns, over plain HTTP and over TLS. A piece that is not the runtime's own stays where it makes a row at
 * least 1.25 times as fast in both (docs/decisions/listener.md).
 *
 * `SVC_BENCH_PAIR=WITH,WITHOUT`: the two, each a commit, which is compiled for this, or an executable.
 */
import { basename, join } from "node:path";
import { type ServerOptions, startServer } from "../e2e/harness.ts";
import { makeAuthority } from "../peers/pki.ts";
import { silently } from "./measure.ts";
import type { Target } from "./registry_compare.ts";
import { imagePulls, largeBlobs, smallRequests } from "./registry_rows.ts";

const ROOT = join(import.meta.dirname!, "../..");

interface Side {
  name: string;
  executable: string;
}

/** An executable that is there, or the one of a commit, made in `folder`. */
async function sideOf(text: string, folder: string): Promise<Side> {
  const isFile = await Deno.stat(text).then((info) => info.isFile, () => false);
  if (isFile) return { name: basename(text), executable: text };
  const tree = join(folder, text);
  await silently("git", ["-C", ROOT, "worktree", "add", "--detach", "--force", tree, text]);
  try {
    const executable = join(folder, `svc-${text}`);
    const script = join(tree, "scripts/compile.ts");
    await silently(Deno.execPath(), ["run", "-A", script, "--output", executable]);
    return { name: text, executable };
  } finally {
    await silently("git", ["-C", ROOT, "worktree", "remove", "--force", tree]);
  }
}

const GROUPS = { requests: smallRequests, blobs: largeBlobs, image: imagePulls };

/** `SVC_BENCH_ROWS=requests,blobs,image` chooses; all by default. */
export async function listener(): Promise<void> {
  const pair = Deno.env.get("SVC_BENCH_PAIR")?.split(",") ?? [];
  if (pair.length !== 2) {
    console.log("\nlistener: no SVC_BENCH_PAIR=WITH,WITHOUT says which two commits to compare");
    return;
  }
  const rows = Deno.env.get("SVC_BENCH_ROWS")?.split(",");
  const groups = Object.entries(GROUPS).filter(([name]) => rows?.includes(name) ?? true);
  const folder = await Deno.makeTempDir({ prefix: "svc-bench-" });
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(() => Deno.remove(folder, { recursive: true }));
  const sides = [await sideOf(pair[0], folder), await sideOf(pair[1], folder)];
  const authority = await makeAuthority(folder);
  const ca = await Deno.readTextFile(authority.cert);
  const client = cleanup.use(Deno.createHttpClient({ caCerts: [ca] }));
  const secure = { authority, certificate: await authority.issue("server") };
  for (const tls of [undefined, secure]) {
    console.log(`\n== ${pair.join(" beside ")}, ${tls ? "TLS" : "plain HTTP"}`);
    await using servers = new AsyncDisposableStack();
    const targets: Target[] = [];
    for (const { name, executable } of sides) {
      const options: ServerOptions = { executable, tls };
      const { host, pid, dataDir } = servers.use(await startServer(options));
      const data = join(dataDir, "registry/objects");
      targets.push({ name, host, pid, data, ...tls ? { tls: { ca }, client } : {} });
    }
    for (const [, run] of groups) await run(targets);
  }
}
