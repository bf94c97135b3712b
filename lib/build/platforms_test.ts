import assert from "node:assert/strict";
import type { Platform } from "../oci/types.ts";
import { elfProgram } from "./foreign.ts";
import type { RunVertex } from "./plan/graph.ts";
import { parsePlatforms, requireRunnable, thisMachine } from "./platforms.ts";

const run = (platform: Platform) =>
  ({ kind: "run", line: 3, text: "RUN make", platform }) as RunVertex;

Deno.test({
  name: "a machine's own programs are tried in a root of their own, and rubbish is none",
  ignore: Deno.build.os !== "linux" || Deno.uid() !== 0,
  fn: async () => {
    const made: string[] = [];
    const machine = thisMachine(async () => {
      const path = await Deno.makeTempDir({ prefix: "svc-probe-" });
      made.push(path);
      return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
    });
    assert.equal(await machine.runs(machine.host.architecture), true);
    assert.equal(await machine.runs("vax"), false);
    for (const path of made) assert.throws(() => Deno.statSync(path), Deno.errors.NotFound);
  },
});

Deno.test("programs of each architecture say in their headers what they are", () => {
  const head = (architecture: string) =>
    [...elfProgram(architecture).subarray(0, 20)].map((byte) => byte.toString(16).padStart(2, "0"))
      .join("");
  assert.equal(head("arm64"), "7f454c460201010000000000000000000200b700");
  assert.equal(head("arm"), "7f454c4601010100000000000000000002002800");
  assert.equal(head("s390x"), "7f454c4602020100000000000000000000020016");
});

Deno.test("a RUN that cannot run is refused with its line before anything runs", async () => {
  const host = { os: "linux", architecture: "amd64" };
  const runs = (architecture: string) => Promise.resolve(["386", "arm64"].includes(architecture));
  const machine = { host, runs };
  const bare = { host, runs: () => Promise.resolve(false) };
  const arm = { os: "linux", architecture: "arm64" };
  await requireRunnable([run(host), run({ ...host, architecture: "386" }), run(arm)], "D", machine);
  await assert.rejects(requireRunnable([run(host), run(arm)], "Dockerfile", bare), {
    code: "unsupported",
    message: "Cannot build Dockerfile:3: RUN make: programs for linux/arm64 do not run on this " +
      "linux/amd64 machine",
  });
  await assert.rejects(
    requireRunnable([run({ os: "windows", architecture: "amd64" })], "D", machine),
  );
});

Deno.test("platforms: several, each once, the machine's own by default", () => {
  assert.equal(parsePlatforms(undefined).length, 1);
  assert.deepEqual(
    parsePlatforms("linux/amd64, linux/arm64/v8,linux/arm64").map((one) => one.architecture),
    ["amd64", "arm64"],
  );
  assert.throws(() => parsePlatforms("linux/amd64,!"), { code: "argument_invalid" });
});
