import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { SSHSIG_NAMESPACE } from "../../api/auth.ts";
import { SvcError } from "../../base/errors.ts";
import { silent } from "../../base/log.ts";
import { presentedToken } from "../credential.ts";
import { InstallationSecret, loadInstallationSecret } from "../installation_secret.ts";
import { OwnTokens } from "../own_tokens.ts";
import { parsePolicy } from "../policy.ts";
import { parseAuthorizedKey } from "./authorized_keys.ts";
import { mayEnrol, requestedKey, requireKeysOf } from "./enrolment.ts";
import { KeyStore } from "./key_store.ts";
import { Sessions } from "./sessions.ts";
import { sshSign, testKey, testSecurityKey } from "./testing.ts";

const alice = testKey("ed25519");
const bob = testKey(256);
const fingerprint = (line: string) => parseAuthorizedKey(line).key.fingerprint;

const refuses = async (code: string, work: () => unknown, message?: RegExp) =>
  await assert.rejects(async () => await work(), (error) => {
    assert(error instanceof SvcError, String(error));
    assert.equal(error.code, code, error.message);
    if (message) assert.match(error.message, message);
    return true;
  });

async function fixture(
  declared = `${alice.line} alice\n`,
  shared = false,
  mostUsed: number | undefined = undefined,
) {
  let now = Date.now();
  const clock = () => now;
  const secret = new InstallationSecret("a secret of some length, for tests only", shared);
  const keys = await KeyStore.open({ declared, log: silent });
  const hasKey = (key: string) => keys.find(key, now) !== undefined;
  const tokens = new OwnTokens({ secret, hasKey, now: clock });
  const sessions = new Sessions({
    ...{ secret, keys, tokens, now: clock },
    ...mostUsed !== undefined && { mostUsed },
  });
  const prove = (key: typeof alice, request: { scope?: string; ttl?: string } = {}) => {
    const { challenge } = sessions.challenge({ fingerprint: fingerprint(key.line), ...request });
    return { challenge, signature: sshSign(key, SSHSIG_NAMESPACE, challenge) };
  };
  return { keys, tokens, sessions, prove, pass: (ms: number) => now += ms };
}

Deno.test("sessions: a signed challenge opens one, with scope and length as asked", async () => {
  const { tokens, sessions, prove, pass } = await fixture();
  const session = sessions.open(prove(alice));
  assert.equal(session.subject, "alice");
  assert.equal(session.scope, "api");
  assert.equal(session.expiresIn, 3600);
  const verified = tokens.verify(presentedToken(session.token))!;
  const { key, ...identity } = verified.identity;
  assert.deepEqual(identity, { subject: "alice", scopes: ["api"], method: "ssh-key" });
  assert.match(key!, /^SHA256:/);
  const short = sessions.open(prove(alice, { scope: "registry:pull", ttl: "5m" }));
  assert.equal(short.expiresIn, 300);
  assert.deepEqual(
    tokens.verify(presentedToken(short.token))!.identity.scopes,
    ["registry:pull"],
  );
  pass(300_001);
  await refuses("unauthorized", () => tokens.verify(presentedToken(short.token)), /expired/);
  assert.equal(sessions.open(prove(alice, { ttl: "24h" })).expiresIn, 86_400);
});

Deno.test("sessions: a used challenge stays used when the clock is set forward, and back again", async () => {
  const { sessions, prove, pass } = await fixture();
  const proof = prove(alice);
  sessions.open(proof);
  pass(3600_000);
  sessions.open(prove(alice));
  pass(-3600_000);
  await refuses("unauthorized", () => sessions.open(proof), /has expired/);
  assert.equal(sessions.open(prove(alice)).expiresIn, 3600, "others are opened as before");
});

Deno.test("sessions: one ends with its key; a length that is none is refused", async () => {
  const end = new Date(Math.ceil(Date.now() / 1000) * 1000 + 600_000);
  const time = end.toISOString().slice(0, 19).replace(/[-T:]/g, "");
  const { sessions, prove, pass } = await fixture(`expiry-time="${time}Z" ${alice.line} alice\n`);
  const { expiresAt } = sessions.open(prove(alice));
  assert.equal(Date.parse(expiresAt), end.getTime());
  for (const ttl of ["soon", "0s", "25h"]) {
    await refuses("argument_invalid", () => prove(alice, { ttl }), /ttl|at most 24h/);
  }
  const proof = prove(alice, { ttl: "1h" });
  pass(119_000);
  sessions.open(proof);
  pass(482_000);
  await refuses("unauthorized", () => sessions.open(prove(alice)), /not enrolled/);
});

Deno.test("sessions: as many are opened as used challenges can be remembered, until these have expired", async () => {
  const { sessions, prove, pass } = await fixture(undefined, false, 2);
  const first = prove(alice);
  sessions.open(first);
  pass(60_000);
  const second = prove(alice);
  sessions.open(second);
  await refuses("unavailable", () => sessions.open(prove(alice)), /too many/);
  pass(60_000);
  sessions.open(prove(alice));
  await refuses("unauthorized", () => sessions.open(second), /used before/);
  await refuses("unavailable", () => sessions.open(prove(alice)), /too many/);
});

Deno.test("sessions: the answers say when the challenge and the session end", async () => {
  const { sessions, prove, pass } = await fixture();
  const key = fingerprint(alice.line);
  const first = Date.parse(sessions.challenge({ fingerprint: key }).expiresAt);
  pass(1_000);
  assert.equal(Date.parse(sessions.challenge({ fingerprint: key }).expiresAt), first + 1_000);
  const session = sessions.open(prove(alice, { ttl: "1m" }));
  // A challenge is good for two minutes.
  assert.equal(Date.parse(session.expiresAt) - (first - 119_000), 60_000);
  assert.equal(session.expiresIn, 60);
});

Deno.test("sessions: a signature that cannot be read says why", async () => {
  const { sessions, prove } = await fixture();
  const { challenge, signature } = prove(alice);
  const bytes = Uint8Array.fromBase64(signature.split("\n").slice(1, -2).join(""));
  const changed = (at: number, value: number) => {
    const copy = bytes.slice();
    copy[at] = value;
    return copy.toBase64();
  };
  const hashed = new TextDecoder("latin1").decode(bytes).indexOf("sha512");
  const cases: [string, RegExp][] = [
    ["no base64!", /it is not base64/],
    [changed(0, 0x54), /it does not begin as one/],
    [changed(9, 2), /its version is not known/],
    [changed(hashed + 3, 0x31), /its hash is not known/],
    ["A".repeat(100_000), /it is too long/],
    [new Uint8Array([...bytes, 0]).toBase64(), /the signature cannot be read/],
  ];
  for (const [text, why] of cases) {
    await refuses("unauthorized", () => sessions.open({ challenge, signature: text }), why);
  }
  sessions.open({ challenge, signature });
});

Deno.test("sessions: a proof is good once, in time, for its own key and challenge", async () => {
  const { sessions, prove, pass } = await fixture();
  const proof = prove(alice);
  sessions.open(proof);
  await refuses("unauthorized", () => sessions.open(proof), /used before/);
  const late = prove(alice);
  pass(120_001);
  await refuses("unauthorized", () => sessions.open(late), /has expired/);
  await refuses("unauthorized", () => sessions.open(proof), /has expired/);
  await refuses("unauthorized", () => sessions.open(prove(bob)), /not enrolled/);
  const one = prove(alice);
  const two = prove(alice);
  const foreign = prove(bob);
  const other = await fixture();
  const wrong: [{ challenge: string; signature: string }, RegExp][] = [
    [{ ...one, signature: two.signature }, /signature does not verify/],
    [{ ...one, signature: foreign.signature }, /signature does not verify/],
    [{ ...one, signature: sshSign(alice, "file", one.challenge) }, /does not verify/],
    [{ ...one, signature: sshSign(alice, SSHSIG_NAMESPACE, `${one.challenge}\n`) }, /not verify/],
    [{ ...one, challenge: `svcc_A${one.challenge.slice(6)}` }, /not one of this server/],
    [{ ...one, challenge: "svcc_e30.AAAA" }, /not one of this server/],
    [{ ...one, signature: "" }, /cannot be read/],
    [{ ...one, signature: "x".repeat(100_000) }, /too long/],
  ];
  for (const [bad, why] of wrong) await refuses("unauthorized", () => sessions.open(bad), why);
  await refuses("unauthorized", () => other.sessions.open(one), /not one of this server/);
});

Deno.test("sessions: a security key opens one where somebody touched it", async () => {
  for (const kind of ["ed25519", 256] as const) {
    const key = testSecurityKey(kind);
    const { sessions } = await fixture(`${key.line} carol\n`);
    const proof = (flags?: number, text = "") => {
      const { challenge } = sessions.challenge({ fingerprint: fingerprint(key.line) });
      return { challenge, signature: sshSign(key, SSHSIG_NAMESPACE, challenge + text, flags) };
    };
    assert.equal(sessions.open(proof()).subject, "carol");
    assert.equal(sessions.open(proof(0x05)).subject, "carol");
    await refuses("unauthorized", () => sessions.open(proof(0)), /does not verify/);
    await refuses("unauthorized", () => sessions.open(proof(1, "x")), /does not verify/);
    // Flags and counter are signed: a touch cannot be added afterwards.
    const { challenge, signature } = proof(0);
    const [begin, ...lines] = signature.trimEnd().split("\n");
    const bytes = Buffer.from(lines.slice(0, -1).join(""), "base64");
    bytes[bytes.length - 5] = 1;
    const forged = `${begin}\n${bytes.toString("base64")}\n${lines.at(-1)}\n`;
    await refuses(
      "unauthorized",
      () => sessions.open({ challenge, signature: forged }),
      /does not verify/,
    );
  }
});

Deno.test("sessions: a challenge of a replica is good at another; of a process that has ended, for none", async () => {
  const replicas = [await fixture(undefined, true), await fixture(undefined, true)];
  assert.equal(replicas[1].sessions.open(replicas[0].prove(alice)).subject, "alice");
  const proof = (await fixture()).prove(alice);
  const restarted = await fixture();
  await refuses("unauthorized", () => restarted.sessions.open(proof), /not one of this server/);
});

Deno.test("sessions: what is asked for is checked, and bounded by the key", async () => {
  const { sessions, prove } = await fixture(`scope="registry:push" ${alice.line} ci\n`);
  await refuses("denied", () => sessions.open(prove(alice)), /scope is not api/);
  assert.equal(sessions.open(prove(alice, { scope: "registry:pull" })).scope, "registry:pull");
  const key = fingerprint(alice.line);
  for (const ttl of ["25h", "0s", "-1h", "long", "24h1s"]) {
    await refuses("argument_invalid", () => sessions.challenge({ fingerprint: key, ttl }));
  }
  for (const scope of ["admin", " "]) {
    await refuses("argument_invalid", () => sessions.challenge({ fingerprint: key, scope }));
  }
  for (const bad of ["", "SHA256:", `${key}=`, "MD5:00", alice.line]) {
    await refuses("argument_invalid", () => sessions.challenge({ fingerprint: bad }));
  }
  assert(sessions.challenge({ fingerprint: key }).challenge.length <= 1024);
});

Deno.test("sessions: they end with their key", async () => {
  const folder = await Deno.makeTempDir();
  const file = join(folder, "auth", "authorized_keys");
  using keys = await KeyStore.open({ file, log: silent, everyMs: 3_600_000 });
  const secret = new InstallationSecret("another secret");
  const tokens = new OwnTokens({ secret, hasKey: (key) => keys.find(key) !== undefined });
  const sessions = new Sessions({ secret, keys, tokens });
  assert.equal(await keys.add(parseAuthorizedKey(`${alice.line} alice`)), true);
  assert.equal(await keys.add(parseAuthorizedKey(`${alice.line} alice`)), false);
  await refuses("conflict", () => keys.add(parseAuthorizedKey(`${alice.line} root`)));
  assert.equal((await Deno.stat(file)).mode! & 0o777, 0o600);
  const { challenge } = sessions.challenge({ fingerprint: fingerprint(alice.line) });
  const { token } = sessions.open({
    challenge,
    signature: sshSign(alice, SSHSIG_NAMESPACE, challenge),
  });
  const verified = tokens.verify(presentedToken(token))!;
  assert(verified.holds!());
  using again = await KeyStore.open({ file, log: silent, everyMs: 3_600_000 });
  assert.deepEqual(again.list().map(({ name }) => name), ["alice"]);
  await keys.remove(fingerprint(alice.line));
  assert(!verified.holds!());
  await refuses("unauthorized", () => tokens.verify(presentedToken(token)), /enrolled no more/);
  await refuses("not_found", () => keys.remove(fingerprint(alice.line)));
  // A file that a person broke is neither used nor overwritten.
  await Deno.writeTextFile(file, "ssh-ed25519 rubbish\n");
  await refuses("conflict", () => keys.add(parseAuthorizedKey(bob.line)));
  assert.equal(await Deno.readTextFile(file), "ssh-ed25519 rubbish\n");
  await refuses("config_invalid", () => KeyStore.open({ file, log: silent }), /line 1: /);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("keys: declared ones are read-only, and come first", async () => {
  const { keys } = await fixture();
  assert.equal(keys.enrolment, false);
  await refuses("unsupported", () => keys.add(parseAuthorizedKey(bob.line)));
  const folder = await Deno.makeTempDir();
  using both = await KeyStore.open({
    declared: `${alice.line} alice`,
    file: join(folder, "keys"),
    log: silent,
  });
  await refuses("conflict", () => both.remove(fingerprint(alice.line)), /declared/);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("keys: a path in the place of keys is told apart from a bad line", async () => {
  const helpOf = async (declared: string) => {
    const error = await KeyStore.open({ declared, log: silent }).catch((error) => error);
    assert(error instanceof SvcError && error.code === "config_invalid", String(error));
    return error.help;
  };
  assert.match((await helpOf("/etc/svc/authorized_keys"))!, /themselves: .*\$\(cat \/etc\/svc/);
  assert.match((await helpOf("ssh-ed25519 /rubbish"))!, /correct the line/);
});

const DAY = 24 * 3_600_000;

Deno.test("keys: one that could do more than its enroller is refused", async () => {
  const policy = await parsePolicy(
    `rules:
  - {subjects: [bob, carl], methods: [jwt], actions: [build, push]}
  - {subjects: bob, methods: [ssh-key], actions: push}
  - {subjects: carl, methods: [ssh-key], actions: [push, deploy]}
  - {subjects: keeper, actions: admin}
  - {subjects: root, actions: "*"}
`,
    "policy",
  );
  const key = (name: string, scope = "api") =>
    requestedKey({ publicKey: `${bob.line} ${name}`, scope }, DAY);
  const as = (subject: string, ...scopes: string[]) => ({
    subject,
    scopes: scopes.length > 0 ? scopes : ["api"],
    method: "jwt",
  });
  mayEnrol(as("bob"), key("anybody"));
  mayEnrol(as("root"), key("carl"), policy);
  mayEnrol(as("bob"), key("bob"), policy);
  await refuses("denied", () => mayEnrol(as("bob"), key("carl"), policy), /keys of "carl"/);
  await refuses("denied", () => mayEnrol(as(""), key("x"), policy));
  await refuses("denied", () => mayEnrol(as("root"), key("bob", "peer"), policy), /scope peer/);
  // The policy grants the name more with a key than with what the caller has.
  await refuses("denied", () => mayEnrol(as("carl"), key("carl"), policy), /lets that key deploy/);
  await refuses("denied", () => mayEnrol(as("keeper"), key("carl"), policy), /lets that key/);
  // A narrower key cannot use it.
  mayEnrol(as("carl"), key("carl", "registry:push"), policy);
  await refuses(
    "denied",
    () => mayEnrol(as("carl", "registry:pull"), key("carl"), policy),
    /scope/,
  );
  requireKeysOf("carl", as("keeper"), policy);
  requireKeysOf("carl", as("carl"), policy);
  await refuses("denied", () => requireKeysOf("", as(""), policy), /keys of ""/);
  await refuses("denied", () => requireKeysOf("carl", as("bob"), policy), /keys of "carl"/);
});

Deno.test("keys: they end within the server's bound", async () => {
  const ends = (expiresAt?: string) =>
    requestedKey({ publicKey: bob.line, expiresAt }, DAY).expires! - Date.now();
  assert(Math.abs(ends() - DAY) < 5000);
  assert(ends(new Date(Date.now() + DAY / 2).toISOString()) < DAY / 2 + 1000);
  const late = new Date(Date.now() + DAY + 60_000).toISOString();
  await refuses("argument_invalid", () => ends(late), /lets a key last 24h/);
});

Deno.test("keys: a request that is not a key of one line is refused", async () => {
  const bad = [
    { publicKey: "rubbish" },
    { publicKey: `${alice.line}\n${bob.line}` },
    { publicKey: `command="sh" ${alice.line}` },
    { publicKey: alice.line, name: "a\nb" },
    { publicKey: alice.line, name: "x".repeat(129) },
    { publicKey: alice.line, scope: "root" },
    { publicKey: alice.line, expiresAt: "tomorrow" },
    { publicKey: alice.line, expiresAt: "2020-01-01T00:00:00Z" },
  ];
  const soon = Date.now() + 60_000;
  assert.equal(requestedKey({ publicKey: bob.line }, DAY, soon).expires, soon);
  const later = { publicKey: bob.line, expiresAt: new Date(soon + 10_000).toISOString() };
  await refuses("argument_invalid", () => requestedKey(later, DAY, soon), /your key ends/);
  for (const request of bad) await refuses("argument_invalid", () => requestedKey(request, DAY));
  const good = requestedKey({
    publicKey: alice.line,
    name: " ",
  }, DAY);
  assert.equal(good.name, fingerprint(alice.line));
});

Deno.test("installation secret: made once, private, and refused when damaged", async () => {
  const dataDir = await Deno.makeTempDir();
  const warnings: string[] = [];
  const load = (configured?: string) =>
    loadInstallationSecret({ dataDir, configured, warn: (text) => warnings.push(text) });
  const path = join(dataDir, "installation.key");
  const first = await load();
  assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
  assert.deepEqual((await load()).key("x"), first.key("x"));
  assert.notDeepEqual(first.key("y"), first.key("x"));
  assert.deepEqual(warnings, []);
  await Deno.chmod(path, 0o644);
  await load();
  assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
  assert.deepEqual((await load("short")).key("x"), new InstallationSecret("short").key("x"));
  assert.equal(warnings.length, 2);
  await Deno.writeTextFile(path, "torn");
  await refuses("config_invalid", () => load(), /damaged/);
  await Deno.remove(dataDir, { recursive: true });
});
