/** The volume of the data directory is full in the middle of each work, and has space again: no restart is needed. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually } from "../waits.ts";
import { withContext } from "./build_helpers.ts";
import { baseImage, e2eTest, runTool, type Server, startServer } from "./harness.ts";

const MOST = "96m";
const LAYER = 3_000_000;

const apply = (server: Server, name: string, more: Record<string, unknown>) =>
  fetch(`${server.url}/.svc/v1/deployments/${name}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ name, stopSignal: "SIGKILL", ...more }),
  });

/** Refused as a full disk is, with what was attempted and what to do. */
async function refused(answer: Response, attempted: RegExp): Promise<void> {
  const problem = await answer.json();
  assert.equal(answer.status, 507, JSON.stringify(problem));
  assert.equal(problem.code, "storage_full");
  assert.match(problem.detail, attempted);
  assert.match(problem.detail, /no space left/i);
  assert.match(problem.help, /free space/);
}

async function accepted(answer: Response): Promise<void> {
  assert.ok(answer.ok, await answer.text());
}

/** Fills a file system but for so many bytes; disposed of, they are free again. */
async function fill(folder: string, but: number): Promise<Disposable> {
  const filler = join(folder, "filler");
  await new Deno.Command("dd", {
    args: ["if=/dev/zero", `of=${filler}`, "bs=64k"],
    stderr: "null",
  }).output();
  await Deno.truncate(filler, Math.max(0, (await Deno.stat(filler)).size - but));
  return { [Symbol.dispose]: () => Deno.removeSync(filler) };
}

e2eTest(
  "full disk: each work is refused with what to do, what runs goes on, and all works once there is space",
  {
    root: true,
    commands: ["runc", "conmon", "iptables", "busybox", "mount", "umount", "skopeo"],
  },
  async (t) => {
    const dataDir = await Deno.makeTempDir({ prefix: "svc-e2e-full-" });
    await runTool("mount", ["-t", "tmpfs", "-o", `size=${MOST}`, "svc-e2e", dataDir]);
    try {
      await using server = await startServer({ dataDir });
      const small = { image: "base:1", restart: "always" };
      const seeded = { image: "large:1", volumes: ["seeded:/seed"] };
      for (const name of ["base:1", "large:1"]) {
        await baseImage(server, name, { layers: [{ "seed/a": name.repeat(LAYER / name.length) }] });
      }
      await accepted(await apply(server, "old", small));
      const { instances: [{ pid }] } = await server.svc(["status", "old", "-o", "json"])
        .then(({ stdout }) => JSON.parse(stdout));
      const works = async () => {
        const { code, stdout, stderr } = await server.svc(["exec", "old", "echo", "here"]);
        assert.deepEqual([code, stdout, stderr], [0, "here\n", ""]);
      };

      await t.step(
        "no byte left: first apply, replacement, command, copy, stop and start",
        async () => {
          {
            using _full = await fill(dataDir, 0);
            await refused(
              await apply(server, "fresh", seeded),
              /^Cannot (deploy|put deployment) fresh/,
            );
            const changed = { ...small, env: { NEW: "1" } };
            await refused(
              await apply(server, "old", changed),
              /^Cannot (deploy|put deployment) old/,
            );
            for (
              const [args, attempted] of [
                [["exec", "old", "true"], /Cannot run true in old-0: no space left/i],
                [
                  ["cp", "/bin/busybox", "old:/tmp/"],
                  /Cannot copy "busybox" to \/tmp.*: .*no space left/i,
                ],
              ] as const
            ) {
              const { code, stderr } = await server.svc([...args]);
              assert.equal(code, 1, stderr);
              assert.match(stderr, attempted);
              assert.match(stderr, /free space/);
            }
            const answer = await fetch(`${server.url}/.svc/v1/deployments`);
            const deployments = await answer.json();
            assert.deepEqual(deployments.map(({ name }: { name: string }) => name), ["old"]);
            assert.equal(deployments[0].instances[0].pid, pid, "it has run all the time");
          }
          await works();
        },
      );

      await t.step(
        "space for the record alone: the seed of a volume is not left half copied",
        async () => {
          {
            using _full = await fill(dataDir, LAYER / 2);
            await refused(await apply(server, "fresh", seeded), /^Cannot /);
          }
          await accepted(await apply(server, "fresh", seeded));
          const { stdout } = await server.svc(["exec", "fresh", "wc", "-c", "/seed/a"]);
          assert.equal(parseInt(stdout), "large:1".length * Math.floor(LAYER / 7));
          assert.equal((await server.svc(["rm", "fresh"])).code, 0);
        },
      );

      await t.step("a build and the push of it", async () => {
        const dockerfile = "FROM base:1\nCOPY big /big\nRUN cp /big /copy\n";
        const big = crypto.getRandomValues(new Uint8Array(65_536));
        const files = {
          Dockerfile: dockerfile,
          big: new Uint8Array(LAYER).map((_, i) => big[i % big.length]),
        };
        await withContext(files, async (folder) => {
          const build = () => server.svc(["build", "-t", "built:1", folder]);
          {
            using _full = await fill(dataDir, LAYER + LAYER / 2);
            const { code, stderr } = await build();
            assert.equal(code, 1, stderr);
            assert.match(stderr, /no space left on device/i);
          }
          const { code, stderr } = await build();
          assert.equal(code, 0, stderr);
        });
      });

      await t.step("its log: the workload goes on, and is killed and started again", async () => {
        {
          using _full = await fill(dataDir, 0);
          const script = "seq 100000 >/proc/1/fd/1";
          await server.svc(["exec", "old", "sh", "-c", script]);
          assert.equal((await fetch(`${server.url}/readyz`)).status, 200);
        }
        await works();
        Deno.kill(pid, "SIGKILL");
        await eventually("it is back", async () => {
          const { stdout } = await server.svc(["status", "old", "-o", "json"]);
          const { state, instances: [one] } = JSON.parse(stdout);
          return state === "running" && one.pid !== undefined && one.pid !== pid;
        });
        await works();
      });
    } finally {
      await runTool("umount", ["-l", dataDir]);
      await Deno.remove(dataDir);
    }
  },
);
