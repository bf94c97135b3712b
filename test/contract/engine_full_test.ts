/** The disk of an engine's own data is full for a while, by each engine with an API of its own. */
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { eventually } from "../waits.ts";
import { requireTools, runTool } from "../e2e/harness.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { PODMAN_COMMANDS, PODMAN_FILES } from "../peers/podman.ts";
import { quickSpec } from "./deploy_tools.ts";
import { DOCKER_COMMANDS, DOCKER_DAEMONS, dockerhostFixture } from "./dockerhost_fixture.ts";
import type { EngineFixture } from "./engine_backend.ts";
import { podmanFixture } from "./podman_fixture.ts";

interface FilledEngine {
  /** Folder of its data, as the engine sees it. */
  root: string;
  daemon: { stop(): Promise<void>; start(): Promise<void>; inside(...command: string[]): string[] };
}

/** No byte is left in the middle of a replacement and of a first apply. */
async function fullDisk(
  { open, engine, image }: EngineFixture,
  { root, daemon }: FilledEngine,
): Promise<void> {
  const sh = (script: string) => {
    const [program, ...args] = daemon.inside("sh", "-euc", script, "sh", root);
    return runTool(program, args);
  };
  const old = (version: string) => quickSpec("old", image, { env: { VERSION: version } });
  const fresh = quickSpec("fresh", image, { volumes: ["fresh:/var/state"] });
  await daemon.stop();
  await sh('mount -t tmpfs -o size=64m tmpfs "$1"');
  await daemon.start();
  await using backend = await open([]);
  try {
    await backend.apply(old("1"));
    await sh('dd if=/dev/zero of="$1/filler" bs=64k 2>/dev/null || true');
    for (const spec of [old("2"), fresh]) {
      await assert.rejects(backend.apply(spec), {
        code: "storage_full",
        message: /^Cannot .*(no space left on device|database or disk is full)/,
        help: /free space/,
      });
    }
    // A database finds room for a while: the new one may have come up, and the old one have to be removed.
    assert.equal((await backend.status("old"))!.state, "running");
    assert.equal(await backend.status("fresh"), undefined);
    await sh('rm "$1/filler"');
    await eventually("one container is left", async () => {
      const { stdout } = await engine("ps", "-aq", "--filter", "label=svc.deployment");
      return stdout.trim().split("\n").length === 1;
    });
    assert.equal((await backend.status("old"))!.state, "running");
    assert.equal((await backend.apply(old("3"))).action, "replaced");
    assert.equal((await backend.apply(fresh)).action, "created");
  } finally {
    for (const name of ["old", "fresh"]) await backend.delete(name);
  }
}

for (const [name, options] of DOCKER_DAEMONS) {
  Deno.test({
    name: `full disk of the engine: ${name}`,
    ...requireTools({
      root: true,
      commands: DOCKER_COMMANDS,
      files: options.version === "28" ? [UNSTABLE_READY] : [],
    }),
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async () => {
      await using fixture = await dockerhostFixture(options);
      const { daemon } = fixture;
      const root = join(dirname(daemon.host.replace("unix://", "")), "data");
      await fullDisk(fixture, { root, daemon });
    },
  });
}

for (const version of ["4.3", "5"] as const) {
  Deno.test({
    name: `full disk of the engine: podman ${version}`,
    ...requireTools({
      root: true,
      commands: PODMAN_COMMANDS,
      files: [...PODMAN_FILES, ...version === "5" ? [UNSTABLE_READY] : []],
    }),
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async () => {
      await using fixture = await podmanFixture({ version });
      const { peer } = fixture;
      await fullDisk(fixture, { root: join(dirname(peer.socket), "storage"), daemon: peer });
    },
  });
}
