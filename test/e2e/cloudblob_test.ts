/**
 * A build made with the tag cloudblob, as a server on Azure's emulator and on a stand-in of Google's storage:
 * the SDKs work from the bundle, uploads go on after a kill, and blobs are redirected.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { bundle, ENTRY } from "../../scripts/build/bundle.ts";
import { RUNTIME_ARGS } from "../../scripts/build/launcher.ts";
import { WORKERS } from "../../lib/base/worker.ts";
import { PART } from "../../backends/store/shared/upload_state.ts";
import { random, sha256 } from "../contract/bucket_store.ts";
import { startAzure, withoutAzure } from "../peers/azure.ts";
import { startGcs } from "../peers/gcs.ts";
import { startServer } from "./harness.ts";

let dir = "";
let executable = "";
Deno.test.beforeAll(async () => {
  dir = await Deno.makeTempDir({ prefix: "svc-cloudblob-" });
  const outDir = join(dir, "bundle");
  const info = { version: "0", dirty: false, form: "launcher", tags: ["cloudblob"] } as const;
  await bundle({ main: "main.ts", workers: WORKERS, info, outDir });
  executable = join(dir, "svc");
  const words = [Deno.execPath(), ...RUNTIME_ARGS, join(outDir, ENTRY)];
  const script = `#!/bin/sh\nexec ${words.map((word) => `'${word}'`).join(" ")} "$@"\n`;
  await Deno.writeTextFile(executable, script, { mode: 0o755 });
});
Deno.test.afterAll(async () => {
  await Deno.remove(dir, { recursive: true });
});

async function pushesAndPulls(env: Record<string, string>): Promise<void> {
  const bytes = random(2 * PART + 77);
  const half = PART + 4321;
  const send = async (url: string, init: RequestInit) => {
    const response = await fetch(url, init);
    await response.body?.cancel();
    return response;
  };
  const part = (from: number, to: number): RequestInit => ({
    method: "PATCH",
    body: bytes.slice(from, to),
    headers: { "content-range": `${from}-${to - 1}`, "content-type": "application/octet-stream" },
  });
  let location: string;
  {
    await using server = await startServer({ env, executable });
    const begun = await send(`${server.url}/v2/big/blob/blobs/uploads/`, { method: "POST" });
    location = begun.headers.get("location")!;
    assert.equal((await send(server.url + location, part(0, half))).status, 202);
    await server.kill9();
  }
  await using server = await startServer({
    env: { ...env, SVC_REGISTRY_REDIRECT: "true" },
    executable,
  });
  const status = await send(server.url + location, {});
  assert.equal(status.headers.get("range"), `0-${half - 1}`);
  const last = { ...part(half, bytes.length), method: "PUT" };
  const done = await send(`${server.url}${location}?digest=${sha256(bytes)}`, last);
  assert.equal(done.status, 201);
  const blob = `${server.url}/v2/big/blob/blobs/${sha256(bytes)}`;
  const redirect = await fetch(blob, { redirect: "manual" });
  await redirect.body?.cancel();
  assert.equal(redirect.status, 307);
  const whole = await fetch(blob);
  assert.equal(sha256(new Uint8Array(await whole.arrayBuffer())), sha256(bytes));
  const range = await fetch(blob, { headers: { range: "bytes=5-9" } });
  assert.deepEqual(new Uint8Array(await range.arrayBuffer()), bytes.subarray(5, 10));
}

Deno.test("cloudblob: the version tells the tag, and the doctor knows the storage", async () => {
  const run = async (command: string, ...args: string[]) => {
    const output = await new Deno.Command(command, { args, stdin: "null" }).output();
    const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    return { code: output.code, text: decode(output.stdout) + decode(output.stderr) };
  };
  assert.match((await run(executable, "version")).text, /build tags: cloudblob/);
  const { code, text } = await run(executable, "doctor", "storage", "azblob://container");
  assert.equal(code, 2);
  assert.match(text, /no account is named/);
});

const ignore = await withoutAzure();
Deno.test({ name: "cloudblob: a server on azblob://", ignore }, async () => {
  await using peer = await startAzure();
  // The account from the environment, the container from the value.
  const SVC_STORAGE = peer.location().split("?")[0];
  await pushesAndPulls({ SVC_STORAGE, AZURE_STORAGE_CONNECTION_STRING: peer.connection });
});

Deno.test("cloudblob: a server on gs://", async () => {
  await using peer = await startGcs();
  const SVC_STORAGE = peer.location();
  await pushesAndPulls({ SVC_STORAGE, GOOGLE_APPLICATION_CREDENTIALS: peer.credentials });
  assert.ok(peer.signed() > 0);
});
