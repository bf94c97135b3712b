import assert from "node:assert/strict";
import { join } from "node:path";
import { hasOpenssl, makeAuthority } from "../../test/peers/pki.ts";
import {
  checkPair,
  covers,
  isDnsName,
  isDnsPattern,
  PairError,
  partsOf,
  readCertificates,
} from "./certificates.ts";
import { der, integer, oid, readAll, TAG, time } from "./der.ts";

Deno.test("names: what a pattern covers, and what is a name", () => {
  const cases: [string, string, boolean][] = [
    ["a.example.com", "a.example.com", true],
    ["*.example.com", "a.example.com", true],
    ["*.example.com", "a.b.example.com", false],
    ["*.example.com", "example.com", false],
    ["*.example.com", ".example.com", false],
    ["*.example.com", "*.example.com", true],
    ["example.com", "a.example.com", false],
  ];
  for (const [pattern, name, expected] of cases) {
    assert.equal(covers(pattern, name), expected, `${pattern} ${name}`);
  }
  for (const name of ["a", "a.b", "xn--bcher-kva.example", "_x.y", "a-b.c"]) {
    assert.ok(isDnsName(name), name);
    assert.ok(isDnsPattern(`*.${name}`), name);
  }
  const not = [
    "",
    ".",
    "a.",
    ".a",
    "-a",
    "a..b",
    "a b",
    "127.0.0.1",
    "a.1",
    "A.b",
    "*",
    "a\0b",
    "é",
  ];
  for (const name of [...not, "a".repeat(64), `${"a.".repeat(127)}bb`]) {
    assert.ok(!isDnsName(name), JSON.stringify(name));
  }
  assert.ok(!isDnsPattern("*.*.a"));
});

Deno.test("DER: values, lengths, numbers, times", () => {
  const long = der(TAG.octetString, new Uint8Array(300));
  assert.deepEqual([...long.subarray(0, 4)], [4, 0x82, 1, 44]);
  assert.deepEqual(readAll(long)[0].content.length, 300);
  assert.deepEqual([...oid("1.2.840.10045.4.3.2")], [
    ...[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2],
  ]);
  assert.deepEqual([...integer(Uint8Array.of(0, 0x80))], [2, 2, 0, 0x80]);
  assert.deepEqual([...integer(Uint8Array.of(0, 0))], [2, 1, 0]);
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes.subarray(2));
  assert.equal(text(time(new Date("2026-02-03T04:05:06.789Z"))), "260203040506Z");
  assert.equal(text(time(new Date("2051-02-03T04:05:06Z"))), "20510203040506Z");
  const bad = [[4], [4, 1], [4, 0x80], [4, 0x85, 1, 1, 1, 1, 1], [0x1f, 1, 0], [4, 0x82, 1]];
  for (const bytes of bad) assert.throws(() => readAll(Uint8Array.from(bytes)), /not DER/);
});

Deno.test({
  name: "certificates: the names and the key are found; what does not fit is told apart",
  ignore: !hasOpenssl(),
}, async () => {
  const folder = await Deno.makeTempDir();
  try {
    const authority = await makeAuthority(folder);
    const names = [
      "DNS:App.Example.com",
      "DNS:*.example.com",
      "IP:127.0.0.1",
      "URI:urn:x",
    ];
    const leaf = await authority.issue("leaf", { names });
    const [cert, key, other, ca] = await Promise.all(
      [leaf.cert, leaf.key, authority.key, authority.cert].map((path) => Deno.readTextFile(path)),
    );
    const pair = checkPair(cert + ca, key);
    assert.deepEqual(pair.names, ["app.example.com", "*.example.com"]);
    const { subject, keyId } = partsOf(readCertificates(ca)[0]);
    assert.equal(subject[0], TAG.sequence);
    assert.equal(keyId?.length, 20);
    const wrong = (certificate: string, key: string, part: string, why: RegExp) =>
      assert.throws(() => checkPair(certificate, key), (error) => {
        assert.ok(error instanceof PairError);
        assert.equal(error.part, part);
        assert.match(error.message, why);
        return true;
      });
    wrong("rubbish", key, "certificate", /no certificate in PEM/);
    const broken = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    wrong(broken, key, "certificate", /number 1 is damaged/);
    wrong(cert + broken, key, "certificate", /number 2 is damaged/);
    wrong(cert, "rubbish", "key", /no private key in PEM/);
    wrong(cert, key.slice(0, 100), "key", /no private key/);
    wrong(cert, other, "key", /does not belong/);
    await new Deno.Command("openssl", {
      args: ["ec", "-in", leaf.key, "-aes128", "-passout", "pass:x", "-out", join(folder, "enc")],
      stderr: "null",
    }).output();
    wrong(cert, await Deno.readTextFile(join(folder, "enc")), "key", /encrypted/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test({
  name: "certificates: damaged ones are refused in words, whatever is damaged",
  ignore: !hasOpenssl(),
}, async () => {
  const folder = await Deno.makeTempDir();
  try {
    const authority = await makeAuthority(folder);
    const { cert, key } = await authority.issue("leaf", { names: ["DNS:a.example"] });
    const [certificate, secret] = await Promise.all([cert, key].map((it) => Deno.readTextFile(it)));
    const raw = Uint8Array.fromBase64(certificate.replace(/-----[^-]+-----|\s/g, ""));
    const pem = (bytes: Uint8Array) =>
      `-----BEGIN CERTIFICATE-----\n${bytes.toBase64()}\n-----END CERTIFICATE-----\n`;
    assert.deepEqual(checkPair(pem(raw), secret).names, ["a.example"]);
    for (let at = 0; at < raw.length; at++) {
      const bytes = raw.slice();
      bytes[at] ^= 1 << (at % 8);
      for (const text of [pem(bytes), pem(raw.subarray(0, at))]) {
        try {
          for (const name of checkPair(text, secret).names) assert.ok(isDnsPattern(name));
        } catch (error) {
          assert.ok(error instanceof PairError, `${at}: ${error}`);
          assert.doesNotMatch(error.message, /undefined|Cannot read/);
        }
      }
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
