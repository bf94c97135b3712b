/**
 * The registry beside docker-registry: the same requests, in turns, both with their access log on. CPU
 * seconds of the server processes are given too: on a busy machine they say more than the clock. Both sync
 * a blob's file before they acknowledge it, svc its folder too.
 */
import { join } from "node:path";
import { startServer } from "../e2e/harness.ts";
import { startDockerRegistry } from "../peers/docker_registry.ts";
import { auth } from "./registry_auth.ts";
import type { Target } from "./registry_compare.ts";
import { imagePulls, largeBlobs, smallRequests } from "./registry_rows.ts";
import { garbage, lists } from "./registry_stores.ts";

const GROUPS = {
  requests: smallRequests,
  blobs: largeBlobs,
  image: imagePulls,
  lists,
};

/** `SVC_BENCH_ROWS=requests,blobs,image,lists,garbage,auth` chooses; all by default. */
export async function registry(): Promise<void> {
  const all = [...Object.keys(GROUPS), "garbage", "auth"];
  const chosen = Deno.env.get("SVC_BENCH_ROWS")?.split(",") ?? all;
  for (const name of chosen) {
    if (!all.includes(name)) throw new Error(`there are no rows ${name}, but ${all.join(", ")}`);
  }
  const groups = Object.entries(GROUPS).filter(([name]) => chosen.includes(name));
  if (groups.length > 0) {
    await using svc = await startServer();
    await using peer = await startDockerRegistry({ accessLog: true });
    const targets: Target[] = [
      { name: "svc", host: svc.host, pid: svc.pid, data: join(svc.dataDir, "registry/objects") },
      {
        name: "docker-registry",
        isPeer: true,
        host: peer.host,
        pid: peer.pid,
        data: peer.data,
      },
    ];
    for (const [, run] of groups) await run(targets);
  }
  if (chosen.includes("garbage")) await garbage();
  if (chosen.includes("auth")) await auth();
}
