/** The containerd backend's server, killed before each of its calls of the daemon and at each change of a file. */
import assert from "node:assert/strict";
import { connect as connectTo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { run } from "../../lib/base/process.ts";
import { requireTools } from "../e2e/harness.ts";
import { containerdFixture, openContainerd } from "./containerd_fixture.ts";
import { deployCrash, ownSteps, serverCommand, type Steps } from "./crash_deploy.ts";
import { hostFound } from "./host_fixture.ts";

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

/** The first call asks who the daemon is. */
function callSteps(front: Awaited<ReturnType<typeof inFront>>, place: unknown): Steps {
  return {
    name: "calls",
    async run(what, step) {
      const [program, ...args] = serverCommand("containerd", place, what);
      const child = new Deno.Command(program, {
        args,
        stdin: "null",
        stdout: "inherit",
        stderr: "inherit",
      }).spawn();
      let killed = false;
      front.before(step + 1, () => {
        if (!killed) child.kill("SIGKILL");
        killed = true;
      });
      const { code } = await child.status;
      front.before(Infinity, () => {});
      assert.ok(killed || code === 0, `exit code ${code}`);
      return !killed;
    },
  };
}

Deno.test({
  name: "containerd backend, killed at every step",
  ...requireTools({
    root: true,
    commands: ["containerd", "ctr", "runc", "perl", "flock", "iptables", "busybox"],
  }),
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    await using fixture = await containerdFixture();
    const { daemon, folder, image, place } = fixture;
    const address = join(folder, "front.sock");
    await using front = await inFront(address, daemon.address);
    const ctr = async (...args: string[]) => {
      const { stdout } = await run("ctr", ["-a", daemon.address, "-n", "svc", ...args]);
      return stdout.split("\n").filter(Boolean);
    };
    const { found, expected } = hostFound(fixture);
    await deployCrash(t, {
      image,
      async open() {
        const backend = await openContainerd(place);
        // Opened at the first use, which removes what the last server was making.
        await backend.caps.pruneImages!({ dryRun: true });
        return backend;
      },
      steps: [callSteps(front, { ...place, address }), ownSteps("containerd", place)],
      found: async () => ({
        ...await found(),
        containers: (await ctr("containers", "ls", "-q")).length,
        tasks: (await ctr("tasks", "ls", "-q")).length,
        active: (await ctr("snapshots", "ls")).filter((line) => line.includes("-active")).length,
      }),
      expected: (made, running) => ({
        ...expected(made),
        ...{ containers: made, tasks: running, active: made },
      }),
    });
  },
});
