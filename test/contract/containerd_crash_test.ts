/**
 * The containerd backend's server killed in the middle of an apply: before one of its calls of the daemon. The next
 * server finds either all of it or nothing, and afterwards nothing is left. (What it runs on the host itself is in
 * bare_crash_test.ts: the same code.)
 */
import assert from "node:assert/strict";
import { connect as connectTo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { isDeepStrictEqual as equal } from "node:util";
import { run } from "../../lib/base/process.ts";
import type { DeploySpec } from "../../lib/api/deploy_spec.ts";
import { bridgeNetwork } from "../../lib/runtime/network.ts";
import { requireTools } from "../e2e/harness.ts";
import { freePort } from "../fixtures/free_port.ts";
import { eventually } from "../waits.ts";
import { containerdFixture, openContainerd } from "./containerd_fixture.ts";
import { execute, quickSpec } from "./deploy_tools.ts";

const SERVER = join(import.meta.dirname!, "containerd_crash_server.ts");
const CONFIG = join(import.meta.dirname!, "../../deno.json");
/** Every so many calls is one before which the server is killed: each takes a second or two. */
const EVERY = Deno.env.get("SVC_TEST_EACH_CALL") ? 1 : 6;

/** HTTP/2's preface, and its frame header (RFC 9113 sections 3.4 and 4.1). */
const PREFACE = 24;
const HEADER = 9;
const HEADERS = 1;

/** Where each call begins in what a client sends: at its frame of headers. */
function callsIn() {
  let skip = PREFACE;
  let head: number[] = [];
  return (bytes: Uint8Array): number[] => {
    const calls: number[] = [];
    for (const [at, byte] of bytes.entries()) {
      if (skip > 0) {
        skip--;
        continue;
      }
      head.push(byte);
      if (head.length < HEADER) continue;
      if (head[3] === HEADERS) calls.push(at);
      skip = head[0] << 16 | head[1] << 8 | head[2];
      head = [];
    }
    return calls;
  };
}

/** A socket in front of the daemon's that calls back before the n-th call, and then passes on nothing. */
async function inFront(path: string, daemon: string) {
  let left = Infinity;
  let stop = () => {};
  let count = 0;
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connectTo(daemon);
    const calls = callsIn();
    client.on("data", (bytes: Uint8Array) => {
      const found = calls(bytes).length;
      count += found;
      left -= found;
      if (left > 0) upstream.write(bytes);
      else stop();
    });
    upstream.on("data", (bytes) => client.write(bytes));
    for (const [one, other] of [[client, upstream], [upstream, client]]) {
      open.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        open.delete(one);
        other.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    count: () => count,
    before(call: number, then: () => void) {
      [left, stop, count] = [call, then, 0];
    },
    [Symbol.asyncDispose]: async () => {
      for (const one of open) one.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

const names = async (folder: string) =>
  (await Array.fromAsync(Deno.readDir(folder)).catch(() => [])).map(({ name }) => name);

Deno.test({
  name: "containerd backend, killed in the middle of an apply",
  ...requireTools({
    root: true,
    commands: ["containerd", "ctr", "runc", "perl", "flock", "iptables", "busybox"],
  }),
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    await using fixture = await containerdFixture();
    const { daemon, dataDir, folder, image, place, subnetBase } = fixture;
    const own = (...parts: string[]) => join(dataDir, "containerd", ...parts);
    const socket = join(folder, "front.sock");
    await using front = await inFront(socket, daemon.address);

    /** Lets a server of its own apply the spec; false where it was killed. */
    const applies = async (spec: DeploySpec, call: number): Promise<boolean> => {
      const args = JSON.stringify({ place: { ...place, address: socket }, spec });
      const child = new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "-q", "--no-check", "--config", CONFIG, SERVER, args],
        stdin: "null",
        stdout: "inherit",
        stderr: "inherit",
      }).spawn();
      let killed = false;
      front.before(call, () => {
        if (!killed) child.kill("SIGKILL");
        killed = true;
      });
      const { code } = await child.status;
      front.before(Infinity, () => {});
      assert.ok(killed || code === 0, `exit code ${code}`);
      return !killed;
    };

    const ctr = async (...args: string[]) => {
      const { stdout } = await run("ctr", ["-a", daemon.address, "-n", "svc", ...args]);
      return stdout.split("\n").filter(Boolean);
    };
    const bridge = bridgeNetwork(subnetBase, 0);
    /** What there is of containers on this host. */
    const found = async () => ({
      containers: (await ctr("containers", "ls", "-q")).length,
      tasks: (await ctr("tasks", "ls", "-q")).length,
      active: (await ctr("snapshots", "ls")).filter((line) => line.includes("-active")),
      instances: (await names(own("instances"))).length,
      records: (await names(own("deployments"))).length,
      namespaces: [...await names(own("netns")), ...await names(own("spares"))].length,
      leases: (await names(join(dataDir, "run/leases", bridge.name)))
        .filter((name) => /^\d/.test(name)).length,
      ports: (await names(`/sys/class/net/${bridge.bridge}/brif`)).length,
    });
    const each = (count: number) => ({
      ...{ containers: count, tasks: count, active: count, instances: count, records: count },
      ...{ namespaces: count, leases: count, ports: count },
    });
    const port = freePort();
    const spec = (version: string) =>
      quickSpec("web", image, { env: { VERSION: version }, ports: [`127.0.0.1:${port}:8080`] });

    /** The version that the next server finds, or none. Everything of it is there, and nothing else. */
    const check = async (): Promise<string | undefined> => {
      await using backend = await openContainerd(place);
      const status = await backend.status("web");
      // Opened at the first use, which removes what the last server was making.
      await backend.caps.pruneImages!({ dryRun: true });
      const expected = each(status ? 1 : 0);
      const counted = async () => {
        const { active, ...counts } = await found();
        return { ...counts, active: active.length };
      };
      await eventually("nothing more", async () => equal(await counted(), expected)).catch(
        async () => assert.deepEqual(await found(), expected),
      );
      if (!status) return undefined;
      assert.equal(status.state, "running");
      await eventually(
        "an answer",
        () =>
          fetch(`http://127.0.0.1:${port}/`).then(
            async (answer) => await answer.text() === "hello from busybox\n",
            () => false,
          ),
      );
      const command = ["sh", "-c", "echo $VERSION"];
      const version = (await execute(backend, "web", { command })).stdout.trim();
      assert.equal(version, (await backend.spec("web"))!.env.VERSION);
      return version;
    };

    for (const title of ["a first deployment", "a replacement"]) {
      await t.step(title, async () => {
        let before = await check();
        for (let call = 2, whole = false; !whole; call += EVERY) {
          const version = `${title.replaceAll(" ", "-")}-${call}`;
          whole = await applies(spec(version), call);
          try {
            const now = await check();
            assert.ok(now === version || !whole && now === before, `${now} after ${before}`);
            // One that was made whole before its server was killed makes the next one a replacement.
            if (before === undefined && now !== undefined && !whole) break;
            before = now;
          } catch (error) {
            throw new Error(`killed at call ${call}`, { cause: error });
          }
          assert.ok(call < 300, "it ends");
        }
      });
    }
    const backend = await openContainerd(place);
    await backend.delete("web");
    await backend[Symbol.asyncDispose]();
    await eventually(
      "nothing is left",
      async () => equal(await found(), { ...each(0), active: [] }),
    );
  },
});
