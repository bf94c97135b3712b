import assert from "node:assert/strict";
import { join } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import { silent } from "../../../lib/base/log.ts";
import { requireTools } from "../../../test/e2e/harness.ts";
import { writePodman } from "../../../test/peers/podman.ts";
import { PodmanService } from "./service.ts";

async function answers(path: string): Promise<boolean> {
  using client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
  try {
    return await (await fetch("http://podman/_ping", { client })).text() === "OK";
  } catch {
    return false; // it is being started
  }
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 60_000; !await holds();) {
    assert.ok(Date.now() < end, "it did not come about");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const isThere = (path: string) => Deno.lstat(path).then(() => true, () => false);

async function inFolder(fn: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-ps-" });
  try {
    await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test({
  name: "podman's service: on a private socket, started again where it ends, ended with the server",
  ignore: requireTools({ root: true, commands: ["podman"] }).ignore,
  fn: () =>
    inFolder(async (folder) => {
      const { bin, servicePid: pid } = await writePodman(folder);
      const options = {
        folder: join(folder, "socket"),
        log: silent,
        program: join(bin, "podman"),
      };
      const service = await PodmanService.start(options);
      const first = await pid();
      try {
        assert.equal(await answers(service.socket), true);
        const { mode } = await Deno.stat(options.folder);
        assert.equal(mode! & 0o777, 0o700);
        Deno.kill(first, "SIGKILL");
        await until(async () => await pid() !== first && await answers(service.socket));
      } finally {
        await service[Symbol.asyncDispose]();
      }
      assert.equal(await isThere(`/proc/${await pid()}`), false);
      assert.equal(await answers(service.socket), false);
    }),
});

Deno.test("without podman, or with one that fails, the error tells what is missing or what it said", () =>
  inFolder(async (folder) => {
    const start = (program: string) => PodmanService.start({ folder, log: silent, program });
    await assert.rejects(
      start(join(folder, "missing")),
      (error) => error instanceof SvcError && error.code === "prerequisite_missing",
    );
    const broken = join(folder, "broken");
    await Deno.writeTextFile(broken, "#!/bin/sh\necho no storage for you >&2\nexit 125\n", {
      mode: 0o755,
    });
    await assert.rejects(
      start(broken),
      (error) =>
        error instanceof SvcError && error.code === "unavailable" &&
        error.message.includes("no storage for you"),
    );
  }));
