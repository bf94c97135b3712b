import assert from "node:assert/strict";
import { createHash } from "../../base/hash.ts";
import { type ScriptedCall, scriptedDaemon } from "../../docker/testing.ts";
import { builderImage } from "./image.ts";

const BASE = "base:1";
const OWN = `sha256:${"a".repeat(64)}`;
const FORGED = `sha256:${"b".repeat(64)}`;

async function withExecutable(fn: (folder: string, executable: string) => Promise<void>) {
  const folder = await Deno.makeTempDir({ prefix: "svc-builder-image-" });
  try {
    const executable = `${folder}/svc`;
    await Deno.writeTextFile(executable, "program");
    await fn(folder, executable);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const imageWith = (Id: string) => ({ Id, Config: { Labels: { "svc.builder.base": BASE } } });

Deno.test("an image that somebody gave the builder's name is not adopted, and the own one is by its id", () =>
  withExecutable(async (folder, executable) => {
    const name = `svc-builder:${createHash("sha256").update("program").digest("hex")}`;
    let builds = 0;
    const answer = async (call: ScriptedCall) => {
      const [method, path] = call.line.split(" ");
      if (method === "GET" && path.endsWith(`/images/${name}/json`)) {
        return await call.json(imageWith(FORGED));
      }
      if (method === "GET" && builds > 0 && path.endsWith(`/images/${OWN}/json`)) {
        return await call.json(imageWith(OWN));
      }
      if (method === "POST" && path.includes("/build?")) {
        await drain(call);
        builds++;
        return await call.json({ aux: { ID: OWN } });
      }
      await call.json({ message: "no such image" }, 404);
    };
    await using daemon = await scriptedDaemon(answer);
    const record = `${folder}/record.json`;
    const options = {
      ...{ engine: daemon.client, executable, base: BASE, record, proxies: {} },
      log: () => {},
    };
    assert.equal(await builderImage(options), OWN);
    assert.equal(builds, 1);
    assert.equal((await Deno.stat(record)).mode! & 0o777, 0o600);
    assert.equal(await builderImage(options), OWN);
    assert.equal(builds, 1, "the image is used again");
    await Deno.remove(record);
    assert.equal(await builderImage(options), OWN);
    assert.equal(builds, 2, "another server's record says nothing here");
  }));

/** Reads a body that is sent in chunks. */
async function drain(call: ScriptedCall): Promise<void> {
  let tail = "";
  while (!tail.endsWith("0\r\n\r\n")) {
    const bytes = await call.read();
    if (!bytes) return;
    tail = (tail + new TextDecoder("latin1").decode(bytes)).slice(-5);
  }
}
