import assert from "node:assert/strict";
import { requestedKey } from "./enrolment.ts";
import { testKey } from "./testing.ts";
import { formatAuthorizedKey, parseAuthorizedKey, parseAuthorizedKeys } from "./authorized_keys.ts";

const [KEY, OTHER] = [testKey("ed25519").line, testKey("ed25519").line];

Deno.test("authorized_keys: what a line grants, and until when", () => {
  const plain = parseAuthorizedKey(`${KEY} alice@host`);
  assert.deepEqual([plain.name, plain.scopes, plain.expires], ["alice@host", ["api"], undefined]);
  const bare = parseAuthorizedKey(KEY);
  assert.equal(bare.name, bare.key.fingerprint);
  assert.equal(parseAuthorizedKey(`${KEY} ${"n".repeat(128)}`).name.length, 128);
  const full = parseAuthorizedKey(
    `no-pty,expiry-time="20300102030405Z",scope="registry:pull" ${KEY} \\"ci\\"`,
  );
  assert.deepEqual(full.scopes, ["registry:pull"]);
  assert.equal(full.expires, Date.UTC(2030, 0, 2, 3, 4, 5));
  assert.deepEqual(parseAuthorizedKey(formatAuthorizedKey(full)), full);
  const day = parseAuthorizedKey(`expiry-time="20300102Z" ${KEY}`);
  assert.equal(day.expires, Date.UTC(2030, 0, 2));
  // Without Z in the time zone of the server's host.
  const local = parseAuthorizedKey(`expiry-time="203001020304" ${KEY}`);
  assert.equal(local.expires, new Date(2030, 0, 2, 3, 4).getTime());
});

Deno.test("authorized_keys: a line that is not understood grants nothing", () => {
  const cases: [string, RegExp][] = [
    [`expiry-time="soon" ${KEY}`, /expiry-time is not YYYYMMDD/],
    [`expiry-time="20301399Z" ${KEY}`, /expiry-time is not a time/],
    [`expiry-time="20300101Z",expiry-time="20400101Z" ${KEY}`, /option expiry-time is not/],
    [`expiry-time ${KEY}`, /option expiry-time is not understood/],
    [`scope="api",scope="registry:pull" ${KEY}`, /option scope is not understood/],
    [`scope ${KEY}`, /option scope is not understood/],
    [`scope="everything" ${KEY}`, /scope/],
    [`command="sh" ${KEY}`, /option command is not understood/],
    [`from="10.0.0.0/8" ${KEY}`, /option from is not understood/],
    [`scope="api" ${KEY.split(" ")[0]}`, /it is not TYPE BASE64/],
    [`scope="api";${KEY}`, /not followed by a key/],
    [`scope="api ${KEY}`, /quote of its options is not closed/],
    [`="x" ${KEY}`, /options cannot be read/],
    // A backslash quotes a quote and nothing else.
    [String.raw`scope="a\pi" ${KEY}`, /scope/],
    [String.raw`scope="api\" ${KEY}`, /quote of its options is not closed/],
    [`${KEY} ${"n".repeat(129)}`, /more than 128 characters/],
  ];
  for (const [line, why] of cases) {
    assert.throws(() => parseAuthorizedKey(line), (error: Error) => why.test(error.message), line);
  }
});

Deno.test("authorized_keys: a file is read whole or not at all, with the line at fault", () => {
  const two = parseAuthorizedKeys(`# keys\r\n\n${KEY} one\r\n${OTHER} two\n`);
  assert.deepEqual(two.map(({ name }) => name), ["one", "two"]);
  assert.throws(() => parseAuthorizedKeys(`${KEY}\n\n${KEY} again`), /^Error: line 3: .*twice/);
  assert.throws(() => parseAuthorizedKeys(`${KEY}\nnonsense\n`), /^Error: line 2: /);
  assert.deepEqual(parseAuthorizedKeys("#".repeat(4 * 2 ** 20)), []);
  assert.throws(() => parseAuthorizedKeys("#".repeat(4 * 2 ** 20 + 1)), /larger than 4 MiB/);
});

Deno.test("enrolment: one line, an end that the server and the caller's own key allow", () => {
  const hour = 3_600_000;
  const after = (ms: number) => new Date(Date.now() + ms).toISOString();
  const own = requestedKey({ publicKey: `${KEY} a`, expiresAt: after(hour) }, 2 * hour);
  assert.ok(Math.abs(own.expires! - Date.now() - hour) <= 1000);
  assert.equal(own.name, "a");
  assert.equal(requestedKey({ publicKey: `${KEY} a`, name: " b " }, hour).name, "b");
  const bounded = requestedKey({ publicKey: KEY }, hour, Date.now() + 1000);
  assert.ok(bounded.expires! <= Date.now() + 1000);
  const cases: [Parameters<typeof requestedKey>, RegExp][] = [
    [[{ publicKey: `${KEY} a\n${OTHER} b` }, hour], /several lines/],
    [[{ publicKey: "nonsense" }, hour], /Cannot enrol the key: its options/],
    [[{ publicKey: KEY, name: "a\u0007b" }, hour], /control characters/],
    [[{ publicKey: KEY, expiresAt: "tomorrow" }, hour], /not a time/],
    [[{ publicKey: KEY, expiresAt: after(-2000) }, hour], /its end is over/],
    [[{ publicKey: KEY, expiresAt: after(2 * hour) }, hour], /lets a key last 1h0m0s at most/],
    [[{ publicKey: KEY, expiresAt: after(hour) }, 2 * hour, Date.now() + 1000], /your key ends/],
  ];
  for (const [words, why] of cases) assert.throws(() => requestedKey(...words), why);
});
