/** The ssh backend against an SSH server in this process. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { silent } from "../../lib/base/log.ts";
import { SvcError } from "../../lib/base/errors.ts";
import { loadServerSettings } from "../../lib/config/server_options.ts";
import type { OpenTunnel, TunnelChange, TunnelRequest } from "../../lib/tunnel/tunnel.ts";
import type { Duplex } from "../../lib/wire/duplex.ts";
import { freePort } from "../../test/fixtures/free_port.ts";
import { newKey, type Relay, startRelay, type Visit } from "../../test/peers/ssh_relay.ts";
import { createTunnels, loadTunnelBackend, TUNNEL_TABLES, usableTunnelBackends } from "./mod.ts";
import { create } from "./ssh/open.ts";
import type { SshSettings } from "./ssh/options.ts";

const PATIENT = { first: 1, most: 20, whole: 120_000 };
const signal = new AbortController().signal;

function settingsOf(relay: Relay, more: Partial<SshSettings> = {}): SshSettings {
  return {
    tunnelSshAddr: `127.0.0.1:${relay.port}`,
    tunnelSshUser: "me",
    tunnelSshBind: ":0",
    tunnelSshUrlTemplate: undefined,
    tunnelSshKnownHosts: undefined,
    tunnelSshUrlFromSession: false,
    tunnelSshHostkey: relay.hostKey,
    tunnelSshInsecure: false,
    ...more,
  };
}

/** Answers with what it gets, and ends when the other side does. */
async function echo(stream: Duplex): Promise<void> {
  for (;;) {
    const bytes = await stream.read();
    if (!bytes) return await stream.closeWrite();
    await stream.write(bytes);
  }
}

interface Opened extends OpenTunnel {
  changes: TunnelChange[];
  /** Resolves when so many changes were told. */
  changed(count: number): Promise<void>;
}

async function open(
  settings: SshSettings,
  request: Partial<TunnelRequest> = {},
  patience = PATIENT,
): Promise<Opened> {
  const changes: TunnelChange[] = [];
  let arrival = Promise.withResolvers<void>();
  const tunnel = await create(settings, silent, patience).open({
    name: "web",
    protocol: "http",
    accept: (stream) => void echo(stream).catch(() => {/* the test ended it */}),
    onChange(change) {
      changes.push(change);
      arrival.resolve();
      arrival = Promise.withResolvers();
    },
    ...request,
  }, signal);
  return Object.assign(tunnel, {
    changes,
    async changed(count: number) {
      while (changes.length < count) await arrival.promise;
    },
  });
}

async function spoken(channel: Visit, text: string): Promise<string> {
  channel.write(text, () => channel.eof());
  const parts: Uint8Array[] = [];
  for await (const part of channel) parts.push(part);
  channel.destroy();
  return Buffer.concat(parts).toString();
}

const fails = (work: Promise<unknown>, code: string, message: RegExp) =>
  assert.rejects(work, (error) => {
    assert.ok(error instanceof SvcError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, message);
    return true;
  });

Deno.test("tunnel over ssh: visitors' bytes come and go, each end by itself", async () => {
  await using relay = await startRelay();
  await using tunnel = await open(settingsOf(relay), { credential: relay.user.private });
  assert.equal(tunnel.url, `http://127.0.0.1:${relay.forwarded[0].bindPort}`);
  const large = "x".repeat(5 << 20);
  const answers = await Promise.all(
    ["", "hello", large].map(async (text) => await spoken(await relay.visit(), text)),
  );
  assert.deepEqual(answers, ["", "hello", large]);
});

Deno.test("tunnel over ssh: a visitor who leaves, and one who is sent away", async () => {
  await using relay = await startRelay();
  const streams: Duplex[] = [];
  const arrived = Promise.withResolvers<void>();
  await using _ = await open(settingsOf(relay), {
    credential: relay.user.private,
    accept: (stream) => void (streams.push(stream), arrived.resolve()),
  });
  const leaving = await relay.visit();
  await arrived.promise;
  leaving.destroy();
  assert.equal(await streams[0].read(), undefined);
  await streams[0].closeWrite();
  await streams[0].closed;
  const away = await relay.visit();
  while (streams.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  streams[1].reset();
  assert.deepEqual(await Array.fromAsync(away), []);
  await assert.rejects(streams[1].write(new Uint8Array(1)), /has ended/);
});

Deno.test("tunnel over ssh: a relay that names its address in its own way", async () => {
  await using relay = await startRelay({ boundAs: "relay.internal" });
  await using _ = await open(settingsOf(relay), { credential: relay.user.private });
  assert.equal(await spoken(await relay.visit(), "hello"), "hello");
});

Deno.test("tunnel over ssh: host keys that are pinned, known, new, others, and not looked at", async () => {
  await using relay = await startRelay();
  const folder = await Deno.makeTempDir();
  try {
    const known = join(folder, "known_hosts");
    const credential = relay.user.private;
    const other = newKey().public;
    const way = async (more: Partial<SshSettings>) => {
      const settings = settingsOf(relay, { tunnelSshHostkey: undefined, ...more });
      await (await open(settings, { credential }))[Symbol.asyncDispose]();
    };
    const name = `[127.0.0.1]:${relay.port}`;
    await way({ tunnelSshHostkey: `${relay.hostKey} comment` });
    await fails(
      way({}),
      "upstream_failed",
      /nothing says what its host key is \(ssh-ed25519 SHA256:/,
    );
    await fails(
      way({ tunnelSshHostkey: other }),
      "upstream_failed",
      /is not the one in SVC_TUNNEL_SSH_HOSTKEY/,
    );
    await way({ tunnelSshInsecure: true });
    await fails(
      way({ tunnelSshKnownHosts: known }),
      "prerequisite_missing",
      /SVC_TUNNEL_SSH_KNOWN_HOSTS/,
    );
    for (
      const [text, refusal] of [
        ["", /is not in .*known_hosts \(/],
        [`${name} ${other}\n`, /has changed from the one in .*known_hosts, line 1/],
        [`@revoked * ${relay.hostKey}\n`, /is revoked in .*known_hosts, line 1/],
        [`${name} ${relay.hostKey}\n`],
      ] as [string, RegExp?][]
    ) {
      await Deno.writeTextFile(known, text);
      const work = way({ tunnelSshKnownHosts: known });
      if (refusal) await fails(work, "upstream_failed", refusal);
      else await work;
    }
    // Another key than the one on file is not a new host.
    await Deno.writeTextFile(known, `${name} ${other}\n`);
    const both = { tunnelSshKnownHosts: known, tunnelSshInsecure: true };
    await fails(way(both), "upstream_failed", /has changed/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("tunnel over ssh: credentials that are refused, are none, or are not needed", async () => {
  await using relay = await startRelay();
  const settings = settingsOf(relay);
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const stranger = privateKey.export({ type: "sec1", format: "pem" }) as string;
  await fails(
    open(settings, { credential: stranger }),
    "upstream_failed",
    /does not accept the key/,
  );
  await fails(open(settings), "upstream_failed", /asks for a key, and none was given/);
  const none = open(settings, { credential: "no-key-at-all" });
  await fails(
    none,
    "argument_invalid",
    /^Cannot use the tunnel's credential: it is not a private key$/,
  );
  await fails(
    open(settings, { credential: relay.user.public }),
    "argument_invalid",
    /not a private key/,
  );
  await using everybodys = await startRelay({ open: true });
  await using tunnel = await open(settingsOf(everybodys));
  assert.match(tunnel.url, /^http:/);
});

Deno.test("tunnel over ssh: a port that is taken, and a server that is not there", async () => {
  await using relay = await startRelay();
  const credential = relay.user.private;
  relay.taken.add(8080);
  const settings = settingsOf(relay, { tunnelSshBind: "localhost:8080" });
  await fails(
    open(settings, { credential }),
    "port_in_use",
    /me@127\.0\.0\.1:\d+: it refuses to listen on localhost:8080/,
  );
  const nowhere = settingsOf(relay, { tunnelSshAddr: `127.0.0.1:${freePort()}` });
  await fails(open(nowhere, { credential }), "upstream_failed", /Cannot open a tunnel over me@/);
});

Deno.test("tunnel over ssh: URLs by template, and from what the server prints", async () => {
  await using relay = await startRelay({
    prints: "Welcome!\r\n\u001b[1mhttps://abc.relay.example\u001b[0m leads to you\r\n",
  });
  const credential = relay.user.private;
  const bind = "app.example:8443";
  const template = { tunnelSshUrlTemplate: "https://{name}-{port}.{host}", tunnelSshBind: bind };
  await using one = await open(settingsOf(relay, template), { credential });
  assert.equal(one.url, "https://web-8443.app.example");
  assert.equal(relay.forwarded[0].bindAddr, "app.example");
  await using two = await open(settingsOf(relay, { tunnelSshUrlFromSession: true }), {
    credential,
  });
  assert.equal(two.url, "https://abc.relay.example");
});

Deno.test("tunnel over ssh: a dropped connection is made again, with the port that it had", async () => {
  await using relay = await startRelay();
  await using tunnel = await open(settingsOf(relay), { credential: relay.user.private });
  const { bindPort } = relay.forwarded[0];
  const visitor = await relay.visit();
  visitor.on("error", () => {/* cut */});
  for (let round = 1; round <= 3; round++) {
    relay.drop();
    await tunnel.changed(2 * round);
    const [down, up] = tunnel.changes.slice(-2);
    assert.match(
      down.state === "down" ? down.reason : "",
      /^Cannot hold a tunnel over me@127\.0\.0\.1:\d+: /,
    );
    assert.deepEqual(up, { state: "up", url: tunnel.url });
    assert.deepEqual(relay.forwarded.map((one) => one.bindPort), [bindPort]);
    assert.equal(await spoken(await relay.visit(), "again"), "again");
  }
  // Somebody else has got the port meanwhile: another one, and the URL says so.
  relay.taken.add(bindPort);
  relay.drop();
  await tunnel.changed(8);
  const url = `http://127.0.0.1:${relay.forwarded[0].bindPort}`;
  assert.notEqual(url, tunnel.url);
  assert.deepEqual(tunnel.changes.at(-1), { state: "up", url });
});

Deno.test("tunnel over ssh: it is given up where that helps nobody", async () => {
  await using relay = await startRelay();
  await using tunnel = await open(settingsOf(relay), { credential: relay.user.private });
  relay.close();
  relay.drop();
  assert.deepEqual((await tunnel.closed)?.detail, { refused: "login" });
  assert.deepEqual(tunnel.changes.map(({ state }) => state), ["down"]);

  await using second = await startRelay();
  const settings = settingsOf(second, { tunnelSshBind: ":8080" });
  const credential = second.user.private;
  await using short = await open(settings, { credential }, { ...PATIENT, whole: 0 });
  second.taken.add(8080);
  second.drop();
  assert.equal((await short.closed)?.code, "port_in_use");
});

Deno.test("tunnel over ssh: disposing of it ends its visitors, also while it is down", async () => {
  await using relay = await startRelay();
  const credential = relay.user.private;
  const tunnel = await open(settingsOf(relay), { credential });
  const visitor = await relay.visit();
  await tunnel[Symbol.asyncDispose]();
  assert.equal(await tunnel.closed, undefined);
  assert.deepEqual(await Array.fromAsync(visitor), []);
  const down = await open(settingsOf(relay), { credential }, { ...PATIENT, first: 60_000 });
  relay.drop();
  await down.changed(1);
  await down[Symbol.asyncDispose]();
  assert.equal(await down.closed, undefined);
});

Deno.test("tunnel backends: what is not in this build, unknown, or lacks a setting, is refused by name", async () => {
  const settings = (env: Record<string, string> = {}) =>
    loadServerSettings([], env, TUNNEL_TABLES).settings;
  const refused = (name: string, code: string, message: RegExp) =>
    fails(loadTunnelBackend(name, settings()), code, message);
  for (const name of ["ngrok", "cloudflare", "tailscale"]) {
    await refused(name, "not_in_build", new RegExp(`with ${name}: it is not in this build yet`));
  }
  await refused("shh", "argument_invalid", /unknown backend "shh"; did you mean ssh\?/);
  await refused("toString", "argument_invalid", /unknown backend/);
  await refused("ssh", "unsupported", /the server has no SVC_TUNNEL_SSH_ADDR/);
  assert.deepEqual(usableTunnelBackends(settings()), []);
  // The default is chosen by nobody; another one is, and is told of at the start.
  createTunnels(settings(), silent);
  assert.throws(
    () => createTunnels(settings({ SVC_TUNNEL_BACKEND: "cloudflare" }), silent),
    /^SvcError: Cannot use SVC_TUNNEL_BACKEND: cloudflare is not in this build yet$/,
  );
  assert.throws(
    () => createTunnels(settings({ SVC_TUNNEL_BACKEND: "ssh" }), silent),
    /SVC_TUNNEL_BACKEND: ssh needs SVC_TUNNEL_SSH_ADDR/,
  );
  assert.deepEqual(usableTunnelBackends(settings({ SVC_TUNNEL_SSH_ADDR: "relay" })), ["ssh"]);
});
