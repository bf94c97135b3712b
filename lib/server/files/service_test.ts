/** What becomes of files that are sent with a deployment, on the server's own disk. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { DeliveredFile } from "../../api/delivered_files.ts";
import { validateDeploySpec } from "../../api/deploy_spec_parse.ts";
import { requireDeliveredFiles } from "../../deploy/services.ts";
import { KeptFiles } from "./kept_files.ts";
import { DeliveredFileService } from "./service.ts";

const spec = validateDeploySpec({ name: "web", image: "app:v1", volumes: ["data:/data"] });

const file = (text: string, more: Partial<DeliveredFile> = {}): DeliveredFile => ({
  ...{ target: "/etc/app.conf", content: btoa(text), mode: 0o440, secret: false },
  ...{ uid: Deno.uid()!, gid: Deno.gid()! },
  ...more,
});

async function withService(
  work: (service: DeliveredFileService, folder: string) => Promise<void>,
): Promise<void> {
  // In memory, so that no tmpfs has to be mounted.
  const folder = await Deno.makeTempDir({ dir: "/dev/shm", prefix: "svc-files-" });
  try {
    const folders = { memory: join(folder, "memory"), disk: join(folder, "disk") };
    await work(new DeliveredFileService(new KeptFiles(folders)), folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** One apply that succeeds; the sources of the mounts. */
async function apply(service: DeliveredFileService, files: DeliveredFile[]): Promise<string[]> {
  const claim = service.claim(spec, { files });
  const { mounts = [] } = await claim.contribute!();
  await claim.commit();
  return mounts.map(({ source }) => source);
}

const linux = { ignore: Deno.build.os !== "linux" };

Deno.test(
  "files: kept with their modes; the same ones again are the same mounts",
  linux,
  () =>
    withService(async (service, folder) => {
      const [source, secret] = await apply(service, [
        file("a=b"),
        file("s3cret", { target: "/run/secrets/key", mode: 0o400, secret: true }),
      ]);
      assert.equal(await Deno.readTextFile(source), "a=b");
      assert.equal((await Deno.stat(source)).mode! & 0o7777, 0o440);
      assert.equal((await Deno.stat(secret)).mode! & 0o7777, 0o400);
      assert.ok(
        secret.startsWith(join(folder, "memory")) && source.startsWith(join(folder, "disk")),
      );
      for (const kept of ["memory", "disk"]) {
        assert.equal((await Deno.stat(join(folder, kept))).mode! & 0o7777, 0o700);
      }
      const same = [
        file("a=b"),
        file("s3cret", { target: "/run/secrets/key", mode: 0o400, secret: true }),
      ];
      assert.deepEqual(await apply(service, same), [source, secret]);
      for (const other of [file("a=c"), file("a=b", { mode: 0o444 })]) {
        const [changed] = await apply(service, [other]);
        assert.notEqual(changed, source);
      }
      await assert.rejects(Deno.stat(secret), Deno.errors.NotFound);
    }),
);

Deno.test(
  "files: a failed apply leaves the earlier ones, and nothing of its own",
  linux,
  () =>
    withService(async (service, folder) => {
      const [source] = await apply(service, [file("old")]);
      const claim = service.claim(spec, { files: [file("new")] });
      const { mounts } = await claim.contribute!();
      await claim.release();
      await assert.rejects(Deno.stat(mounts![0].source), Deno.errors.NotFound);
      assert.equal(await Deno.readTextFile(source), "old");
      // The same files fail: they are those of the workload that runs.
      const again = service.claim(spec, { files: [file("old")] });
      await again.contribute!();
      await again.release();
      assert.equal(await Deno.readTextFile(source), "old");
      // A server that starts knows nothing of them, and leaves them.
      await new DeliveredFileService(
        new KeptFiles({ memory: join(folder, "memory"), disk: join(folder, "disk") }),
      ).claim(spec, {}).commit();
      assert.equal(await Deno.readTextFile(source), "old");
      await service.removed("web");
      assert.deepEqual(await Array.fromAsync(Deno.readDir(join(folder, "disk"))), []);
    }),
);

Deno.test(
  "files: an apply without files takes them away",
  linux,
  () =>
    withService(async (service, folder) => {
      await apply(service, [file("old")]);
      assert.deepEqual(await apply(service, []), []);
      assert.deepEqual(await Array.fromAsync(Deno.readDir(join(folder, "disk"))), []);
    }),
);

Deno.test(
  "files: where the spec has something already, and an engine without mounts: refused",
  linux,
  () =>
    withService((service) => {
      assert.throws(() => service.claim(spec, { files: [file("a", { target: "/data" })] }), {
        code: "spec_invalid",
        message: "Cannot deliver a file at /data: the spec has another mount there",
      });
      assert.throws(() => requireDeliveredFiles({ name: "other", caps: {} }), {
        code: "unsupported",
        message: /files \(configs, secrets\): the other backend cannot mount/,
      });
      return Promise.resolve();
    }),
);
