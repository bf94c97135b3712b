import assert from "node:assert/strict";
import { createDigester, digestOf, isDigest, parseDigest, verified } from "./digest.ts";

const ABC = new TextEncoder().encode("abc");
const SHA256 = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const SHA512 = "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a" +
  "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";

const streamOf = (...chunks: Uint8Array[]) => ReadableStream.from(chunks);
const drain = async (stream: ReadableStream<Uint8Array>) => {
  let size = 0;
  for await (const chunk of stream) size += chunk.length;
  return size;
};

Deno.test("digestOf gives the published test vectors", () => {
  assert.equal(digestOf(ABC), SHA256);
  assert.equal(digestOf(ABC, "sha512"), SHA512);
  assert.deepEqual(parseDigest(SHA512), { algorithm: "sha512", hex: SHA512.slice(7) });
});

Deno.test("parseDigest refuses every other form", () => {
  const bad = [
    "",
    "sha256",
    "sha256:",
    `${SHA256}0`,
    SHA256.toUpperCase(),
    `sha512:${"a".repeat(64)}`,
    `md5:${"a".repeat(32)}`,
    `${SHA256}\n`,
    `x${SHA256}`,
  ];
  for (const text of bad) {
    assert.equal(isDigest(text), false, text);
    assert.throws(() => parseDigest(text), { code: "digest_invalid" }, text);
  }
});

Deno.test("a digester goes on after digest() and copies are independent", () => {
  const digester = createDigester();
  digester.update(ABC.subarray(0, 1));
  const copy = digester.copy();
  digester.digest();
  digester.update(ABC.subarray(1));
  assert.equal(digester.digest(), SHA256);
  assert.notEqual(copy.digest(), SHA256);
  copy.update(ABC.subarray(1));
  assert.equal(copy.digest(), SHA256);
});

Deno.test("verified passes right bytes and errors on wrong, short and long ones", async () => {
  assert.equal(await drain(verified(streamOf(ABC.subarray(0, 2), ABC.subarray(2)), SHA256, 3)), 3);
  assert.equal(await drain(verified(streamOf(ABC), SHA512)), 3);
  await assert.rejects(drain(verified(streamOf(ABC), digestOf(new Uint8Array(3)), 3)), {
    code: "digest_invalid",
  });
  await assert.rejects(drain(verified(streamOf(ABC), SHA256, 4)), { code: "size_invalid" });
  await assert.rejects(drain(verified(streamOf(ABC, ABC), SHA256, 3)), { code: "size_invalid" });
  await assert.rejects(drain(verified(streamOf(), SHA256, 3)), { code: "size_invalid" });
});
