/** lib/docker against a real daemon: over its unix socket, TLS with certificates, and ssh. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { DockerClient } from "../../lib/docker/client.ts";
import { dockerEndpoint, type EndpointSettings } from "../../lib/docker/endpoint.ts";
import { watchEvents } from "../../lib/docker/events.ts";
import { splitOutput } from "../../lib/docker/frames.ts";
import { readProgress } from "../../lib/docker/messages.ts";
import { SvcError } from "../../lib/base/errors.ts";
import type { Duplex } from "../../lib/wire/duplex.ts";
import { readableOf } from "../../lib/wire/duplex.ts";
import { requireTools, runTool } from "../e2e/harness.ts";
import { writeBaseLayout } from "../peers/base_image.ts";
import { type DockerdPeer, startDockerd } from "../peers/dockerd.ts";
import { startSshd } from "../peers/sshd.ts";
import { eventually } from "../waits.ts";

const attempted = "Cannot try";
const COMMANDS = ["dockerd", "docker", "busybox", "unshare", "nsenter", "openssl", "skopeo"];
const { ignore } = requireTools({ root: true, commands: COMMANDS });
const ssh = requireTools({ root: true, commands: ["ssh", "sshd", "ssh-keygen"] }).ignore;

const encoder = new TextEncoder();

async function load(client: DockerClient, archive: string): Promise<void> {
  const file = await Deno.open(archive);
  await readProgress(
    await client.stream({
      path: "/images/load",
      body: file.readable,
      headMs: Infinity,
      attempted,
    }),
    attempted,
  );
}

async function written(duplex: Duplex, ...words: string[]): Promise<void> {
  for (const word of words) await duplex.write(encoder.encode(word));
  await duplex.closeWrite();
}

/** What every way to the daemon carries: JSON, tars both ways, a handed-over connection, events. */
async function everything(client: DockerClient, archive: string): Promise<void> {
  const daemon = await client.daemon();
  assert.equal(daemon.os, "linux");
  await load(client, archive);
  const abort = new AbortController();
  const events = await watchEvents(client, {
    filters: { type: ["container"], event: ["start"] },
    signal: abort.signal,
  });
  const { Id } = await client.json<{ Id: string }>({
    path: "/containers/create",
    json: {
      Image: "base:1",
      Cmd: ["/bin/sleep", "600"],
      HostConfig: { NetworkMode: "none" },
      StopSignal: "KILL",
    },
    attempted,
  });
  const at = `/containers/${Id}`;
  await client.run({ method: "POST", path: `${at}/start`, attempted });
  // Started already: 304.
  await client.run({ method: "POST", path: `${at}/start`, attempted });
  for await (const { Actor } of events) {
    assert.equal(Actor.ID, Id);
    break;
  }
  abort.abort();
  const { Id: exec } = await client.json<{ Id: string }>({
    path: `${at}/exec`,
    json: {
      AttachStdin: true,
      AttachStdout: true,
      AttachStderr: true,
      Cmd: ["/bin/sh", "-c", "sha256sum; echo done >&2; exit 7"],
    },
    attempted,
  });
  const duplex = await client.upgrade({ path: `/exec/${exec}/start`, json: {}, attempted });
  const parts = splitOutput(readableOf(duplex), () => duplex.reset());
  const texts = Promise.all([parts.stdout, parts.stderr].map((one) => new Response(one).text()));
  // More than the connection holds by itself.
  const mebibyte = "0".repeat(2 ** 20);
  await written(duplex, ...Array.from({ length: 4 }, () => mebibyte));
  const digest = new Uint8Array(
    await crypto.subtle.digest("SHA-256", encoder.encode(mebibyte.repeat(4))),
  );
  assert.deepEqual(await texts, [`${digest.toHex()}  -\n`, "done\n"]);
  duplex.reset();
  const state = await client.json<{ ExitCode: number }>({ path: `/exec/${exec}/json`, attempted });
  assert.equal(state.ExitCode, 7);
  const tar = await client.stream({ path: `${at}/archive`, query: { path: "/srv" }, attempted });
  await client.run({
    method: "PUT",
    path: `${at}/archive`,
    query: { path: "/tmp" },
    body: tar,
    attempted,
  });
  const answer = await client.call({
    method: "HEAD",
    path: `${at}/archive`,
    query: { path: "/tmp/srv/index.html" },
    attempted,
  });
  assert.ok(answer.headers["x-docker-container-path-stat"]);
  await answer.body.cancel();
  await assert.rejects(
    client.run({ path: "/containers/none-such/json", attempted }),
    (error) =>
      error instanceof SvcError && error.code === "not_found" &&
      error.message === "Cannot try: No such container: none-such",
  );
  await client.run({ method: "DELETE", path: at, query: { force: true, v: true }, attempted });
  await client.run({ method: "DELETE", path: "/images/base:1", attempted });
}

async function withDaemon(
  test: (daemon: DockerdPeer, archive: string, folder: string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-dockerd-" });
  try {
    const layout = join(folder, "layout");
    const archive = join(folder, "base.tar");
    await writeBaseLayout(layout, "base");
    await runTool("skopeo", [
      ...["--insecure-policy", "copy", "--quiet"],
      ...[`oci:${layout}:base`, `docker-archive:${archive}:base:1`],
    ]);
    await using daemon = await startDockerd(folder, { tcp: "tls" });
    await test(daemon, archive, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const clientOf = (settings: EndpointSettings) =>
  new DockerClient({ endpoint: dockerEndpoint(settings) });

Deno.test({
  name: "the client speaks with a real daemon over its unix socket and TLS; the daemon's restart",
  ignore,
  // The peer's processes outlive a step.
  sanitizeOps: false,
  sanitizeResources: false,
  fn: () =>
    withDaemon(async (daemon, archive, folder) => {
      await using client = clientOf({ host: daemon.host });
      await everything(client, archive);
      await using secure = clientOf({
        host: daemon.tcp,
        tls: true,
        certPath: daemon.certificates,
      });
      await everything(secure, archive);
      // Without the client's certificate; with another authority's.
      const port = new URL(daemon.tcp).port;
      await using plain = clientOf({ host: `tcp://127.0.0.1:${port}` });
      await assert.rejects(plain.daemon(), {
        code: "unavailable",
        message: /it speaks TLS$/,
        help: /DOCKER_TLS_VERIFY=1/,
      });
      using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      const answering = (async () => {
        const connection = await listener.accept();
        await connection.read(new Uint8Array(1024));
        await connection.write(new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n"));
        connection.close();
      })();
      await using wrong = clientOf({
        host: `tcp://127.0.0.1:${listener.addr.port}`,
        tls: true,
        certPath: daemon.certificates,
      });
      await assert.rejects(wrong.daemon(), {
        code: "unavailable",
        message: /it does not speak TLS$/,
        help: /DOCKER_TLS_VERIFY/,
      });
      await answering;
      const other = join(folder, "other");
      await Deno.mkdir(other);
      await runTool("openssl", [
        ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"],
        ...["-keyout", join(other, "key.pem"), "-out", join(other, "cert.pem")],
        ...["-days", "2", "-subj", "/CN=other"],
      ]);
      await Deno.copyFile(join(other, "cert.pem"), join(other, "ca.pem"));
      await using strange = clientOf({ host: daemon.tcp, tls: true, certPath: other });
      await assert.rejects(
        strange.daemon(),
        (error) => error instanceof SvcError && error.code === "unavailable",
      );
      const events = await watchEvents(client, { signal: new AbortController().signal });
      const ended = assert.rejects(
        Array.fromAsync(events),
        (error) => error instanceof SvcError && error.code === "unavailable",
      );
      await daemon.kill9();
      await ended;
      await assert.rejects(
        client.json({ path: "/containers/json", attempted }),
        (error) => error instanceof SvcError && error.code === "unavailable",
      );
      await daemon.start();
      assert.deepEqual(await client.json({ path: "/containers/json", attempted }), []);
    }),
});

Deno.test({
  name: "the client speaks with a real daemon over ssh",
  ignore: ignore || ssh,
  sanitizeOps: false,
  sanitizeResources: false,
  fn: () =>
    withDaemon(async (daemon, archive, folder) => {
      await using sshd = await startSshd();
      const home = join(folder, "home");
      await Deno.mkdir(join(home, ".ssh"), { recursive: true, mode: 0o700 });
      // The server's ssh reads its user's configuration, as docker's client does.
      const bin = join(folder, "bin");
      await Deno.mkdir(bin);
      const config = join(folder, "ssh_config");
      await Deno.writeTextFile(join(folder, "known"), await sshd.knownHosts());
      await Deno.writeTextFile(
        config,
        `Host peer\n  HostName 127.0.0.1\n  Port ${sshd.port}\n  User root\n` +
          `  IdentityFile ${sshd.user}\n  UserKnownHostsFile ${folder}/known\n`,
      );
      const path = Deno.env.get("PATH")!;
      await Deno.writeTextFile(
        join(bin, "ssh"),
        `#!/bin/sh\nPATH=${path} exec ssh -F ${config} "$@"\n`,
        { mode: 0o755 },
      );
      Deno.env.set("PATH", `${bin}:${path}`);
      try {
        const socket = new URL(daemon.host).pathname;
        await using client = clientOf({ host: `ssh://peer${socket}` });
        await everything(client, archive);
        await sshd.drop();
        // The forward broke: it is opened again. Until its process has ended, it takes connections and breaks them.
        await eventually("the daemon answers again", async () => {
          const found = await client.json({ path: "/containers/json", attempted })
            .catch((error) => {
              assert.equal(error.code, "unavailable");
            });
          return Array.isArray(found) && found.length === 0;
        });
        await using none = clientOf({ host: "ssh://peer/run/none.sock" });
        await assert.rejects(
          none.daemon(),
          (error) => error instanceof SvcError && error.code === "unavailable",
        );
        await Deno.writeTextFile(join(folder, "known"), "");
        await using unknown = clientOf({ host: `ssh://peer${socket}` });
        await assert.rejects(
          unknown.daemon(),
          (error) => error instanceof SvcError && error.code === "denied",
        );
      } finally {
        Deno.env.set("PATH", path);
      }
    }),
});
