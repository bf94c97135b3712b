import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";
import fc from "fast-check";
import { hostName, judge, knownTypes, parseKnownHosts, wildcard } from "./known_hosts.ts";
import { fingerprint, string } from "./packing.ts";

const SEED = { seed: 20_26, numRuns: 300 };

const key = (n: number, type = "ssh-ed25519") =>
  Buffer.concat([string(type), string(Buffer.alloc(32, n))]);
const line = (hosts: string, n: number, type = "ssh-ed25519") =>
  `${hosts} ${type} ${key(n, type).toString("base64")} comment`;

Deno.test("known_hosts: known, new, changed and revoked are told apart", () => {
  const entries = parseKnownHosts(
    [line("a,b", 1), "# comment", "", line("@revoked *", 9), line("[a]:2222", 2), "junk"].join(
      "\n",
    ),
  );
  assert.deepEqual(judge(entries, "a", key(1)), { kind: "known" });
  assert.deepEqual(judge(entries, "c", key(1)), { kind: "new" });
  assert.deepEqual(judge(entries, "b", key(3)), { kind: "changed", line: 1 });
  assert.deepEqual(judge(entries, "c", key(9)), { kind: "revoked", line: 4 });
  assert.deepEqual(judge(entries, hostName("A", 2222), key(2)), { kind: "known" });
  assert.deepEqual(judge(entries, hostName("a", 2223), key(1)), { kind: "new" });
  // A key of another type is not the key that is known.
  assert.equal(judge(entries, "a", key(1, "ssh-rsa")).kind, "changed");
  assert.deepEqual(knownTypes(entries, "a"), ["ssh-ed25519"]);
});

Deno.test("known_hosts: revoked beats known; an authority vouches for nothing here", () => {
  const both = parseKnownHosts(`${line("h", 1)}\n${line("@revoked h", 1)}`);
  assert.deepEqual(judge(both, "h", key(1)), { kind: "revoked", line: 2 });
  const authority = parseKnownHosts(line("@cert-authority *", 1));
  assert.deepEqual(judge(authority, "h", key(1)), { kind: "new" });
});

Deno.test("known_hosts: hashed names, patterns and negation", () => {
  const salt = Buffer.alloc(20, 7);
  const hash = createHmac("sha1", salt).update("[h]:22022").digest();
  const hashed = parseKnownHosts(
    line(`|1|${salt.toString("base64")}|${hash.toString("base64")}`, 1),
  );
  assert.deepEqual(judge(hashed, "[h]:22022", key(1)), { kind: "known" });
  assert.deepEqual(judge(hashed, "h", key(1)), { kind: "new" });
  const patterns = parseKnownHosts(line("*.example,!bad.example,10.0.0.?", 1));
  const kind = (name: string) => judge(patterns, name, key(1)).kind;
  assert.deepEqual(["a.example", "bad.example", "10.0.0.5", "10.0.0.55"].map(kind), [
    "known",
    "new",
    "known",
    "new",
  ]);
});

Deno.test("known_hosts: any text is read, and vouches only for keys that stand in it", () => {
  const word = fc.string({ maxLength: 30 });
  const text = fc.array(
    fc.oneof(
      fc.string({ maxLength: 200 }),
      fc.tuple(word, word, fc.base64String({ maxLength: 80 })).map((parts) => parts.join(" ")),
      fc.constantFrom(
        line("h", 1),
        line("@revoked h", 2),
        line("|1|aa|bb", 1),
        "@x h ssh-rsa AAAA",
      ),
    ),
    { maxLength: 20 },
  ).map((lines) => lines.join("\n"));
  fc.assert(
    fc.property(text, fc.string({ maxLength: 20 }), (text, name) => {
      const entries = parseKnownHosts(text);
      for (const name_ of [name, "h"]) {
        assert.notEqual(judge(entries, name_, key(77)).kind, "known");
        judge(entries, name_, key(1));
      }
    }),
    SEED,
  );
});

Deno.test("wildcard: agrees with the regular expression of the pattern, and is not slow", () => {
  const chars = fc.string({ unit: fc.constantFrom("a", "b", "*", "?"), maxLength: 12 });
  fc.assert(
    fc.property(chars, chars, (pattern, text) => {
      const regexp = new RegExp(`^${pattern.replaceAll("*", "[^]*").replaceAll("?", "[^]")}$`);
      assert.equal(wildcard(pattern, text), regexp.test(text), `${pattern} on ${text}`);
    }),
    SEED,
  );
  assert.equal(wildcard("*a".repeat(200), "a".repeat(5000) + "b"), false);
});

Deno.test("a fingerprint is what ssh-keygen -l prints", () => {
  assert.match(fingerprint(key(1)), /^SHA256:[A-Za-z0-9+/]{43}$/);
});
