/** Files of containers as podman copies them: it follows links, and is asked for no more than svc allows. */
import assert from "node:assert/strict";
import { readTar } from "../../lib/oci/tar_read.ts";
import { writeTar } from "../../lib/oci/tar_write.ts";
import type { DeployBackendUnderTest, Need, OwnTest } from "./deploy_suite.ts";
import { execute, quickSpec, shell } from "./deploy_tools.ts";
import type { PodmanFixture } from "./podman_fixture.ts";

export function podmanFiles(
  test: OwnTest,
  { backend, image }: DeployBackendUnderTest,
  { allowed }: PodmanFixture,
): void {
  const files = () => backend().caps.files!;
  const content = async (name: string, path: string) => {
    for await (const { header, body } of readTar((await files().read(name, path)).tar)) {
      const bytes = body as ReadableStream<Uint8Array<ArrayBuffer>>;
      return `${header.path}: ${await new Response(bytes).text()}`;
    }
  };
  const put = (name: string, folder: string) => {
    const body = new TextEncoder().encode("new");
    return files().write(name, folder, writeTar([{ path: "file", type: "file", body }]));
  };
  const withName = (
    title: string,
    name: string,
    fn: (name: string) => Promise<void>,
    needs?: readonly Need[],
  ) =>
    test(title, async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    }, needs);

  withName("files: a link is what it leads to, which is in the container", "led", async (name) => {
    await Deno.writeTextFile(`${allowed}/secret`, "of the host");
    await backend().apply(quickSpec(name, image));
    await execute(backend(), name, {
      command: shell(
        "mkdir /d; echo own > /d/file; ln -s /d/file /link; ln -s /d /folder; ln -s /none /dangling; " +
          `ln -s ${allowed}/secret /out; ln -s ../../../../../..${allowed}/secret /up`,
      ),
    });
    for (const running of [true, false]) {
      if (!running) await backend().power(name, "stop");
      const { name: base, size, linkTarget, mode } = (await files().stat(name, "/link"))!;
      assert.deepEqual([base, size, linkTarget, mode & 0o170000], ["link", 4, undefined, 0o100000]);
      assert.equal((await files().stat(name, "/folder"))!.mode & 0o170000, 0o040000);
      assert.equal(await content(name, "/link"), "link: own\n");
      for (const path of ["/dangling", "/out", "/up", `${allowed}/secret`]) {
        assert.equal(await files().stat(name, path), undefined, path);
        await assert.rejects(files().read(name, path), { code: "not_found" }, path);
      }
      for (const path of ["/d/*", "/d/fil?", "/d/[f]ile", "/d/\\file"]) {
        await assert.rejects(content(name, path), { code: "unsupported" }, path);
      }
    }
  });

  withName("files: what is read-only is so in a stopped container too", "fixed", async (name) => {
    await Deno.mkdir(`${allowed}/fixed/inner`, { recursive: true });
    const mounts = [`${allowed}/fixed:/fixed:ro`];
    await backend().apply(quickSpec(name, image, { mounts, readOnly: true, tmpfs: ["/memory"] }));
    await put(name, "/memory");
    const paths = ["/fixed", "/fixed/inner", "/etc/../fixed/", "/etc"];
    for (const power of ["", "pause", "stop"]) {
      if (power === "pause") await backend().caps.pause!.pause(name);
      if (power === "stop") await backend().power(name, "stop");
      for (const path of paths) {
        await assert.rejects(put(name, path), { code: "conflict" }, `${path} ${power}`);
      }
    }
    assert.deepEqual([...Deno.readDirSync(`${allowed}/fixed`)].map(({ name }) => name), ["inner"]);
  }, ["folders"]);

  withName("files: no link leads into what is read-only", "linked", async (name) => {
    await Deno.mkdir(`${allowed}/linked`);
    await backend().apply(quickSpec(name, image, { mounts: [`${allowed}/linked:/linked:ro`] }));
    const command = shell("mkdir -p /tmp/d; ln -s /linked /tmp/l; ln -s / /tmp/d/root");
    await execute(backend(), name, { command });
    await put(name, "/tmp/d");
    for (const power of ["", "pause", "stop"]) {
      if (power === "pause") await backend().caps.pause!.pause(name);
      if (power === "stop") await backend().power(name, "stop");
      for (const path of ["/tmp/l", "/tmp/l/", "/tmp/d/root/linked"]) {
        await assert.rejects(put(name, path), { code: "conflict" }, `${path} ${power}`);
      }
    }
    assert.deepEqual([...Deno.readDirSync(`${allowed}/linked`)], []);
  }, ["folders"]);

  withName(
    "files: of a stopped container no folder that was put elsewhere",
    "put",
    async (name) => {
      await Deno.mkdir(`${allowed}/moved`);
      await backend().apply(quickSpec(name, image, { mounts: [`${allowed}/moved:/moved`] }));
      await put(name, "/moved");
      await backend().power(name, "stop");
      assert.equal(await content(name, "/moved/file"), "file: new");
      await Deno.rename(`${allowed}/moved`, `${allowed}/kept`);
      await Deno.symlink("/etc", `${allowed}/moved`);
      for (const act of [() => content(name, "/moved/passwd"), () => put(name, "/moved")]) {
        await assert.rejects(act(), { code: "denied" });
      }
    },
    ["folders"],
  );
}
