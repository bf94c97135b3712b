/** Text and bytes that nobody vouches for: parsers take them or say that they are malformed, no more. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { SvcError } from "../../base/errors.ts";
import { parseScopeMap } from "../jwt/scope_map.ts";
import { formatAuthorizedKey, parseAuthorizedKey, parseAuthorizedKeys } from "./authorized_keys.ts";
import { KEY_TYPES, parseKeyBlob } from "./public_key.ts";
import { parseSshsig, verifySshsig } from "./sshsig.ts";
import { sshSign, testKey, testSecurityKey } from "./testing.ts";
import { Malformed, packString, WireReader } from "./wire.ts";

const SETTINGS = { seed: 20261121, numRuns: 400 };
const keys = ([256, 384, 521, "ed25519", "rsa"] as const).map(testKey);
const securityKeys = (["ed25519", 256] as const).map(testSecurityKey);
const all = [...keys, ...securityKeys];
const bytes = new TextEncoder();

function onlyMalformed(work: () => unknown): void {
  try {
    work();
  } catch (error) {
    assert(error instanceof Malformed, String(error));
  }
}

/** A change of a few bytes, a cut or something behind the end. */
const mutation = fc.record({
  at: fc.nat(),
  insert: fc.uint8Array({ maxLength: 8 }),
  remove: fc.nat(12),
});

function mutate(source: Uint8Array, { at, insert, remove }: {
  at: number;
  insert: Uint8Array;
  remove: number;
}): Buffer {
  const start = at % (source.length + 1);
  return Buffer.concat([source.subarray(0, start), insert, source.subarray(start + remove)]);
}

Deno.test("ssh: every kind of key and signature is read, and a changed message is not", () => {
  for (const key of keys) {
    const parsed = parseAuthorizedKey(`${key.line} somebody @ home`);
    assert.equal(parsed.name, "somebody @ home");
    for (let n = 0; n < 8; n++) {
      const sig = parseSshsig(sshSign(key, "n", `text ${n}`));
      assert.equal(sig.key.fingerprint, parsed.key.fingerprint);
      assert(verifySshsig(sig, "n", bytes.encode(`text ${n}`)), key.algorithm);
      assert(!verifySshsig(sig, "n", bytes.encode(`text ${n + 1}`)));
      assert(!verifySshsig(sig, "m", bytes.encode(`text ${n}`)));
    }
  }
});

Deno.test("ssh: a signature or key that says the same in other bytes is refused", () => {
  const u32 = (value: number) => new Uint8Array([0, 0, 0, value]);
  for (const key of keys) {
    const text = sshSign(key, "n", "text");
    const whole = Buffer.from(text.split("\n").slice(1, -2).join(""), "base64");
    const fields = new WireReader(whole);
    const magic = fields.take(6);
    fields.uint32();
    const [blob, namespace, reserved, digest, inner] = Array.from(
      { length: 5 },
      () => fields.string(),
    );
    const signature = new WireReader(inner);
    const [algorithm, numbers] = [signature.string(), signature.string()];
    type Parts = Partial<
      Record<"version" | "blob" | "reserved" | "algorithm" | "numbers", Uint8Array>
    >;
    const packed = (parts: Parts, behind = "", behindInner = "") =>
      Buffer.concat([
        magic,
        parts.version ?? u32(1),
        packString(parts.blob ?? blob),
        packString(namespace),
        packString(parts.reserved ?? reserved),
        packString(digest),
        packString(Buffer.concat([
          packString(parts.algorithm ?? algorithm),
          packString(parts.numbers ?? numbers),
          Buffer.from(behindInner),
        ])),
        Buffer.from(behind),
      ]).toString("base64");
    assert(verifySshsig(parseSshsig(packed({})), "n", bytes.encode("text")), key.algorithm);
    // Blanks do not count, but for the length.
    assert(parseSshsig(packed({}).padEnd(32 * 1024)));
    assert.throws(() => parseSshsig(packed({}).padEnd(32 * 1024 + 1)), /too long/);
    const others = [
      packed({ version: u32(2) }),
      packed({ blob: Buffer.concat([blob, u32(0)]) }),
      packed({ reserved: bytes.encode("x") }),
      packed({ algorithm: bytes.encode("ssh-rsa") }),
      packed({}, "x"),
      packed({}, "", "x"),
    ];
    for (const other of others) assert.throws(() => parseSshsig(other), Malformed, key.algorithm);
    if (!key.algorithm.startsWith("ecdsa")) continue;
    const parts = new WireReader(numbers);
    const [r, s] = [parts.string(), parts.string()];
    const long = Buffer.concat([packString(Buffer.concat([Buffer.from([0]), r])), packString(s)]);
    // Both numbers in the place of the second one.
    const size = Math.ceil(Number(key.algorithm.slice(-3)) / 8);
    const padded = Buffer.concat([Buffer.alloc(size), s]).subarray(-size);
    const twice = packString(Buffer.concat([r, padded]));
    for (const numbers of [long, Buffer.concat([packString(r), twice])]) {
      const sig = parseSshsig(packed({ numbers }));
      assert(!verifySshsig(sig, "n", bytes.encode("text")), key.algorithm);
    }
  }
});

Deno.test("ssh: fuzz: signatures", () => {
  const texts = all.map((key) => sshSign(key, "n", "text"));
  fc.assert(
    fc.property(fc.nat(all.length - 1), mutation, (which, change) => {
      const whole = Buffer.from(texts[which].split("\n").slice(1, -2).join(""), "base64");
      const changed = mutate(whole, change);
      onlyMalformed(() => {
        const sig = parseSshsig(changed.toString("base64"));
        const good = verifySshsig(sig, "n", bytes.encode("text"));
        assert(!good || changed.equals(whole), "a changed signature verifies");
      });
    }),
    SETTINGS,
  );
  fc.assert(fc.property(fc.string(), (text) => onlyMalformed(() => parseSshsig(text))), SETTINGS);
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 200 }),
      (tail) =>
        onlyMalformed(() =>
          parseSshsig(Buffer.concat([Buffer.from("SSHSIG\0\0\0\x01"), tail]).toString("base64"))
        ),
    ),
    SETTINGS,
  );
});

Deno.test("ssh: fuzz: keys", () => {
  fc.assert(
    fc.property(fc.nat(all.length - 1), mutation, (which, change) => {
      const changed = mutate(all[which].blob, change);
      onlyMalformed(() => assert(changed.equals(Buffer.from(parseKeyBlob(changed).blob))));
    }),
    SETTINGS,
  );
  fc.assert(
    fc.property(
      fc.constantFrom(...KEY_TYPES, "__proto__", "ecdsa-sha2-", "sk-ecdsa-sha2-nistp256"),
      fc.array(fc.uint8Array({ maxLength: 80 }), { maxLength: 4 }),
      (type, fields) =>
        onlyMalformed(() =>
          parseKeyBlob(Buffer.concat([packString(type), ...fields.map(packString)]))
        ),
    ),
    SETTINGS,
  );
});

Deno.test("ssh: fuzz: authorized_keys", () => {
  const option = fc.constantFrom(
    'scope="api"',
    'scope="registry:pull registry:push"',
    'expiry-time="20990101"',
    'expiry-time="209901011530Z"',
    "restrict",
    "no-pty",
    'scope="a\\"b"',
    'command="x"',
    "from",
    'scope="',
    "=",
    "",
  );
  fc.assert(
    fc.property(
      fc.array(option, { maxLength: 4 }),
      fc.nat(all.length - 1),
      fc.string(),
      (options, which, comment) =>
        onlyMalformed(() => {
          const head = options.length > 0 ? `${options.join(",")} ` : "";
          const parsed = parseAuthorizedKey(`${head}${all[which].line} ${comment}`);
          assert.deepEqual(parseAuthorizedKey(formatAuthorizedKey(parsed)), parsed);
          assert(!options.includes('command="x"') && !options.includes("from"));
        }),
    ),
    SETTINGS,
  );
  const lines = fc.array(
    fc.oneof(fc.string(), fc.constantFrom("", "# c", ...keys.map((k) => k.line))),
  );
  fc.assert(
    fc.property(lines, (all) => {
      try {
        parseAuthorizedKeys(all.join("\n"));
      } catch (error) {
        assert.match((error as Error).message, /^line \d+: /);
      }
    }),
    SETTINGS,
  );
});

Deno.test("scope map: fuzz", async () => {
  const value = fc.oneof(
    fc.jsonValue(),
    fc.record({
      rules: fc.array(fc.record({
        claims: fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue()),
        scope: fc.oneof(fc.constantFrom("api", "peer"), fc.jsonValue()),
        subject: fc.oneof(fc.string(), fc.constant("{sub}:{/a/b}")),
      })),
    }),
  );
  await fc.assert(
    fc.asyncProperty(fc.oneof(value.map((v) => JSON.stringify(v)), fc.string()), async (text) => {
      try {
        const map = await parseScopeMap(text, "map");
        map.map({ sub: "x", a: { b: 1 }, __proto__: null });
      } catch (error) {
        assert(error instanceof SvcError && error.code === "config_invalid", String(error));
      }
    }),
    SETTINGS,
  );
});
