import assert from "node:assert/strict";
import { formatPlatform, hostPlatform, parsePlatform, selectPlatform } from "./platform.ts";
import type { Descriptor, Platform } from "./types.ts";

const entry = (name: string, platform?: Platform): Descriptor => ({
  mediaType: "application/vnd.oci.image.manifest.v1+json",
  digest: name,
  size: 1,
  platform,
});
const index = (...names: string[]) => ({
  manifests: names.map((name) => {
    const [os, architecture, variant] = name.split("/");
    return entry(name, variant ? { os, architecture, variant } : { os, architecture });
  }),
});
const pick = (wanted: string, ...names: string[]) =>
  selectPlatform(index(...names), parsePlatform(wanted))?.digest;

Deno.test("parsePlatform reads names and aliases", () => {
  assert.deepEqual(parsePlatform("linux/arm64/v8"), { os: "linux", architecture: "arm64" });
  assert.deepEqual(parsePlatform("linux/aarch64"), { os: "linux", architecture: "arm64" });
  assert.deepEqual(parsePlatform("Linux/x86_64"), { os: "linux", architecture: "amd64" });
  assert.equal(formatPlatform(parsePlatform("linux/arm")), "linux/arm/v7");
  assert.equal(formatPlatform(parsePlatform("linux/armel")), "linux/arm/v6");
  assert.equal(formatPlatform(parsePlatform("linux/arm/6")), "linux/arm/v6");
  assert.equal(formatPlatform(parsePlatform("linux/amd64/v3")), "linux/amd64/v3");
  assert.equal(parsePlatform("windows").os, "windows");
  assert.equal(parsePlatform("arm64").architecture, "arm64");
  assert.equal(parsePlatform("arm64").os, hostPlatform().os);
  for (const bad of ["", "a/b/c/d", "linux//v8", "linux/ amd64"]) {
    assert.throws(() => parsePlatform(bad), { code: "argument_invalid" }, bad);
  }
});

Deno.test("selectPlatform prefers the exact variant, then the nearest lower one", () => {
  assert.equal(pick("linux/arm64", "linux/amd64", "linux/arm64/v8"), "linux/arm64/v8");
  assert.equal(pick("linux/arm64/v8", "linux/amd64", "linux/arm64"), "linux/arm64");
  assert.equal(
    pick("linux/arm/v7", "linux/arm/v5", "linux/arm/v6", "linux/arm/v7"),
    "linux/arm/v7",
  );
  assert.equal(pick("linux/arm/v7", "linux/arm/v5", "linux/arm/v6"), "linux/arm/v6");
  assert.equal(pick("linux/arm/v6", "linux/arm/v7"), undefined);
  assert.equal(pick("linux/amd64/v2", "linux/amd64/v3", "linux/amd64"), "linux/amd64");
  assert.equal(pick("linux/amd64", "linux/amd64/v2"), undefined);
  assert.equal(pick("windows/amd64", "linux/amd64"), undefined);
  assert.equal(pick("linux/amd64", "linux/amd64", "linux/amd64"), "linux/amd64");
});

Deno.test("selectPlatform passes attestations over and takes an only entry without platform", () => {
  assert.equal(pick("linux/amd64", "unknown/unknown", "linux/amd64"), "linux/amd64");
  assert.equal(pick("linux/amd64", "unknown/unknown"), undefined);
  assert.equal(selectPlatform({ manifests: [entry("only")] })?.digest, "only");
  assert.equal(selectPlatform({ manifests: [entry("a"), entry("b")] }), undefined);
  assert.equal(selectPlatform({ manifests: [] }), undefined);
});

Deno.test("selectPlatform tells Windows versions apart", () => {
  const windows = (name: string, version: string) =>
    entry(name, { os: "windows", architecture: "amd64", "os.version": version });
  const chosen = selectPlatform(
    { manifests: [windows("old", "10.0.17763.1"), windows("new", "10.0.20348.1")] },
    { os: "windows", architecture: "amd64", "os.version": "10.0.20348.1" },
  );
  assert.equal(chosen?.digest, "new");
});
