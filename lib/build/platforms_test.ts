import assert from "node:assert/strict";
import type { Platform } from "../oci/types.ts";
import type { RunVertex } from "./plan/graph.ts";
import { parsePlatforms, registrationTakes, requireRunnable } from "./platforms.ts";

const AARCH64 = [
  "enabled",
  "interpreter /usr/bin/qemu-aarch64-static",
  "flags: OCF",
  "offset 0",
  "magic 7f454c460201010000000000000000000200b700",
  "mask ffffffffffffff00fffffffffffffffffeffffff",
  "",
].join("\n");

const run = (platform: Platform) =>
  ({ kind: "run", line: 3, text: "RUN make", platform }) as RunVertex;

Deno.test("binfmt: a registration takes the programs its magic says, where it is enabled and fixed", () => {
  assert.equal(registrationTakes(AARCH64, "arm64"), true);
  assert.equal(registrationTakes(AARCH64, "arm"), false);
  assert.equal(registrationTakes(AARCH64, "riscv64"), false);
  assert.equal(registrationTakes(AARCH64, "vax"), false);
  assert.equal(registrationTakes(AARCH64.replace("enabled", "disabled"), "arm64"), false);
  assert.equal(registrationTakes(AARCH64.replace("OCF", "OC"), "arm64"), false);
  assert.equal(
    registrationTakes("enabled\ninterpreter /bin/x\nflags: F\nextension .py\n", "arm64"),
    false,
  );
});

Deno.test("a RUN that cannot run is refused with its line before anything runs", async () => {
  const host = { os: "linux", architecture: "amd64" };
  const machine = { host, registrations: () => Promise.resolve([AARCH64]) };
  const bare = { host, registrations: () => Promise.resolve([]) };
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
