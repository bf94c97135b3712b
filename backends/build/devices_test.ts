/** RUN --device: what steps get of devices that the host's CDI files describe, and who may have them. */
import assert from "node:assert/strict";
import { closeIdleWorkers } from "../../lib/base/worker_pool.ts";
import type { Manifest } from "../../lib/oci/types.ts";
import { layerEntries } from "../../test/contract/builder.ts";
import { build } from "../../test/contract/builder_fixture.ts";
import { type EngineFixture, openNewEngine } from "../../test/contract/engine_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";

const { ignore } = requireTools({ root: true, commands: ["runc"], files: ["/bin/busybox"] });

/** A device with a node, a folder, a variable and a program of the host that runs beforehand. */
async function describe({ folder }: EngineFixture, allowed: boolean): Promise<void> {
  await Deno.mkdir(`${folder}/cdi`, { recursive: true });
  await Deno.mkdir(`${folder}/driver`, { recursive: true });
  await Deno.writeTextFile(`${folder}/driver/version`, "seven\n");
  await Deno.writeTextFile(
    `${folder}/cdi/vendor.yaml`,
    `cdiVersion: "0.6.0"
kind: vendor.example/device
annotations: { org.mobyproject.buildkit.device.autoallow: ${allowed} }
devices:
- name: one
  containerEdits:
    env: [DEVICE=one]
    deviceNodes: [{ path: /dev/one, hostPath: /dev/null }]
    mounts: [{ hostPath: ${folder}/driver, containerPath: /opt/driver, options: [ro, bind] }]
    hooks: [{ hookName: createRuntime, path: /bin/busybox, args: [busybox, touch, ${folder}/hooked] }]
`,
  );
}

const FILES = {
  Dockerfile: [
    "FROM base",
    "RUN --device=vendor.example/device=one,required --device=nobody.example/device \\",
    "  echo $DEVICE > /seen && cat /opt/driver/version >> /seen && echo gone > /dev/one && \\",
    "  test -c /dev/one && ! touch /opt/driver/more 2>/dev/null",
    "RUN test ! -e /opt/driver/version && test ! -e /dev/one && test -z $DEVICE",
  ].join("\n"),
};

Deno.test({
  name: "devices: a step has what the file says, and the image has no trace of it",
  ignore,
  fn: async () => {
    await using fixture = await openNewEngine(["device"]);
    await describe(fixture, false);
    await build(fixture.builder, FILES, { allow: ["device"] });
    const { manifest } = await fixture.images.image("result") as { manifest: Manifest };
    const files = [...layerEntries(fixture.images, manifest.layers[1].digest).values()];
    assert.deepEqual(
      files.filter(({ type }) => type === "file").map(({ path, text }) => [path, text]),
      [
        ["seen", "one\nseven\n"],
      ],
    );
    assert.ok(!files.some(({ path }) => path.startsWith("opt") || path.startsWith("dev/")));
    assert.ok((await Deno.stat(`${fixture.folder}/hooked`)).isFile);
    const again = await build(fixture.builder, FILES, {
      allow: ["device=vendor.example/device=one"],
    });
    assert.equal(again.result.ran, 0);
    await fixture.assertClean();
    closeIdleWorkers();
  },
});

Deno.test({
  name: "devices: they are for whom the server or the file allows them",
  ignore,
  fn: async () => {
    await using fixture = await openNewEngine();
    const use = { Dockerfile: "FROM base\n\nRUN --device=vendor.example/device echo $DEVICE\n" };
    // Nobody has described it, and it is not required.
    await build(fixture.builder, use);
    const must = { Dockerfile: "FROM base\nRUN --device=vendor.example/device,required true\n" };
    await assert.rejects(build(fixture.builder, must), {
      code: "unsupported",
      message: /Dockerfile:2: .*no CDI file of this builder describes vendor\.example\/device/,
    });
    await describe(fixture, false);
    // What is asked for is not permitted by the server.
    for (const request of [{}, { allow: ["device" as const] }]) {
      await assert.rejects(build(fixture.builder, use, request), {
        code: "denied",
        message: /Dockerfile:3: .*not allowed to use vendor\.example\/device=one/,
      });
    }
    await describe(fixture, true);
    const { output } = await build(fixture.builder, use, { noCache: true });
    assert.match(output, /one/);
    closeIdleWorkers();
  },
});
