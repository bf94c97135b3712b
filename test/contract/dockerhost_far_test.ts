/** The dockerhost backend with daemons that it reaches by TLS and by ssh: what it does most, and who is refused. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import type { EndpointSettings } from "../../lib/docker/endpoint.ts";
import { requireTools } from "../e2e/harness.ts";
import { startSshd } from "../peers/sshd.ts";
import { eventually, execute, lines, quickSpec, runs, shell } from "./deploy_tools.ts";
import { type DockerhostFixture, dockerhostFixture } from "./dockerhost_fixture.ts";

const COMMANDS = ["dockerd", "docker", "busybox", "unshare", "nsenter", "ip", "iptables"];
const { ignore } = requireTools({
  root: true,
  commands: [...COMMANDS, "openssl", "ssh", "sshd", "ssh-keygen"],
});

/** The contract's small slice. */
async function everyday(backend: DeployBackend, image: string, name: string): Promise<void> {
  const spec = (version: string) =>
    quickSpec(name, image, {
      env: { V: version },
      command: shell("echo out $V; echo err >&2; exec sleep 1000"),
    });
  assert.equal((await backend.apply(spec("1"))).action, "created");
  const before = await runs(backend, name);
  assert.equal((await backend.apply(spec("1"))).action, "unchanged");
  assert.deepEqual(await runs(backend, name), before);
  assert.equal((await backend.apply(spec("2"))).action, "replaced");
  assert.deepEqual((await lines(backend, name)).sort(), ["err", "out 2"]);
  const input = "typed\n".repeat(100_000);
  const done = await execute(
    backend,
    name,
    { command: shell("cat; echo $V >&2; exit 7") },
    input,
  );
  assert.equal(done.stdout, input);
  assert.deepEqual([done.stderr, done.code], ["2\n", 7]);
  await assert.rejects(backend.apply(quickSpec(name, image, { command: shell("exit 3") })), {
    code: "deploy_failed",
    message: /exited with code 3/,
  });
  assert.equal((await backend.status(name))!.state, "running");
  assert.equal(await backend.delete(name), true);
  assert.equal(await backend.status(name), undefined);
}

/** A backend of its own, by this way to the fixture's daemon. */
async function by(
  fixture: DockerhostFixture,
  settings: EndpointSettings,
  use: (backend: DeployBackend) => Promise<void>,
): Promise<void> {
  const backend = await fixture.by(settings);
  try {
    await use(backend);
  } finally {
    await backend[Symbol.asyncDispose]();
  }
}

async function refused(
  backend: DeployBackend,
  image: string,
  told: { code?: string; message: RegExp },
): Promise<void> {
  await assert.rejects(backend.apply(quickSpec("refused", image)), told);
  assert.deepEqual(await backend.list(), []);
}

Deno.test({
  name: "deployments by a daemon's TLS socket; without a certificate nothing is deployed",
  ignore,
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async () => {
    await using fixture = await dockerhostFixture({ tcp: "tls" });
    const { image, daemon: { tcp: host, certificates: certPath } } = fixture;
    await by(fixture, { host, tls: true, certPath }, (it) => everyday(it, image, "secure"));
    const told = { message: /the Docker daemon.* an HTTP request to an HTTPS server/ };
    await by(fixture, { host }, (it) => refused(it, image, told));
    assert.equal((await fixture.engine("ps", "-aq")).stdout, "");
  },
});

Deno.test({
  name: "deployments by ssh, over a line that breaks; a strange host key deploys nothing",
  ignore,
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async () => {
    await using fixture = await dockerhostFixture();
    await using sshd = await startSshd();
    const known = join(sshd.folder, "known");
    await Deno.writeTextFile(known, await sshd.knownHosts());
    const config = join(sshd.folder, "ssh_config");
    await Deno.writeTextFile(
      config,
      `Host peer\n  HostName 127.0.0.1\n  Port ${sshd.port}\n  User root\n` +
        `  IdentityFile ${sshd.user}\n  UserKnownHostsFile ${known}\n`,
    );
    // The server's ssh reads its user's configuration, as docker's client does.
    const bin = join(sshd.folder, "bin");
    await Deno.mkdir(bin);
    const path = Deno.env.get("PATH")!;
    await Deno.writeTextFile(
      join(bin, "ssh"),
      `#!/bin/sh\nPATH=${path} exec ssh -F ${config} "$@"\n`,
      { mode: 0o755 },
    );
    Deno.env.set("PATH", `${bin}:${path}`);
    try {
      const { image } = fixture;
      const host = `ssh://peer${new URL(fixture.daemon.host).pathname}`;
      await by(fixture, { host }, async (backend) => {
        await everyday(backend, image, "by-ssh");
        await backend.apply(quickSpec("stays", image));
        const before = await runs(backend, "stays");
        const watching = new AbortController().signal;
        const events = backend.events(watching)[Symbol.asyncIterator]();
        const lost = assert.rejects(events.next(), { code: "unavailable" });
        await sshd.drop();
        await lost;
        await eventually("the line is there again", async () => {
          const now = await runs(backend, "stays").catch(() => []);
          return now.join() === before.join();
        });
        await everyday(backend, image, "by-ssh");
        await backend.delete("stays");
      });
      await Deno.writeTextFile(known, "");
      const told = { code: "denied", message: /Cannot trust peer: its host key/ };
      await by(fixture, { host }, (it) => refused(it, image, told));
      assert.equal((await fixture.engine("ps", "-aq")).stdout, "");
    } finally {
      Deno.env.set("PATH", path);
    }
  },
});
