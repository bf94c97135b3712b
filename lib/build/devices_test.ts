/** Which devices a build may have: those that it asks for and that the server permits. */
import assert from "node:assert/strict";
import type { Entitlement } from "../api/build_entitlements.ts";
import { parseEntitlement } from "../api/build_entitlements.ts";
import { SvcError } from "../base/errors.ts";
import { requireDevices } from "./devices.ts";
import { parseDockerfile } from "./parse/parse.ts";
import type { RunVertex } from "./plan/graph.ts";
import { planBuild } from "./plan/plan.ts";
import { MemoryImages } from "../../test/contract/builder_fixture.ts";

const CDI = JSON.stringify({
  cdiVersion: "0.6.0",
  kind: "vendor.example/gpu",
  devices: [
    { name: "0", containerEdits: {} },
    { name: "1", annotations: { "org.mobyproject.buildkit.device.class": "big" } },
    { name: "2", annotations: { "org.mobyproject.buildkit.device.autoallow": "true" } },
  ],
});
const gpu = (name: string) => `vendor.example/gpu=${name}`;

/** The steps of a Dockerfile that uses this device. */
async function steps(device: string, allow: Entitlement[]): Promise<RunVertex[]> {
  const images = new MemoryImages();
  await images.add("base", {
    os: "linux",
    architecture: "amd64",
    rootfs: { type: "layers", diff_ids: [] },
  }, []);
  const { vertices } = await planBuild({
    dockerfile: parseDockerfile(`FROM base\nRUN --device=${device} true`),
    buildArgs: {},
    labels: {},
    images,
    platform: { os: "linux", architecture: "amd64" },
    allow,
  });
  return vertices.filter((vertex) => vertex.kind === "run");
}

/** The device that was refused, or what the step is given. */
async function outcome(device: string, asked: Entitlement[], permitted: Entitlement[]) {
  const folder = await Deno.makeTempDir({ prefix: "svc-cdi-" });
  try {
    await Deno.writeTextFile(`${folder}/gpu.json`, CDI);
    const found = await steps(device, asked);
    await requireDevices(found, { file: "Dockerfile", asked, permitted, folders: [folder] });
    return found[0].devices[0].name;
  } catch (error) {
    assert.ok(error instanceof SvcError && error.code === "denied", String(error));
    return / use (\S+)$/.exec(error.message)![1] + " refused";
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("a device is for whom both the caller and the server name it", async () => {
  const any: Entitlement[] = ["device"];
  for (
    const [asked, permitted] of [
      [any, any],
      [any, [`device=${gpu("1")}`]],
      [[`device=${gpu("1")}`], any],
      [["device=vendor.example/gpu=*"], ["device=big"]],
      [[`device=${gpu("0")}`, `device=${gpu("big")}`], ["security.insecure", "device"]],
    ] as [Entitlement[], Entitlement[]][]
  ) assert.equal(await outcome(gpu("1"), asked, permitted), gpu("1"), `${asked} ${permitted}`);
  for (
    const [asked, permitted] of [
      [[], any],
      [any, []],
      [[`device=${gpu("0")}`], any],
      [any, ["device=vendor.example/gpu"]],
      [["security.insecure"], ["security.insecure"]],
    ] as [Entitlement[], Entitlement[]][]
  ) {
    const refused = `${gpu("1")} refused`;
    assert.equal(await outcome(gpu("1"), asked, permitted), refused, `${asked} ${permitted}`);
  }
  // Its own file lets everyone have it.
  assert.equal(await outcome(gpu("2"), [], []), gpu("2"));
});

Deno.test("an alias is what the Dockerfile calls a device that the caller chooses", async () => {
  const asked: Entitlement[] = [`device=${gpu("0")},alias=any.example/card`];
  assert.equal(await outcome("any.example/card", asked, ["device"]), gpu("0"));
  const refused = `${gpu("0")} refused`;
  assert.equal(await outcome("any.example/card", asked, [`device=${gpu("1")}`]), refused);
  // Only what is called so.
  assert.equal(await outcome(gpu("1"), asked, ["device"]), `${gpu("1")} refused`);
});

Deno.test("entitlements that are none", () => {
  for (const text of ["", "device=", "device=a,b", "device=a,alias=", "device=a b", "devices"]) {
    assert.throws(() => parseEntitlement(text), { code: "argument_invalid" }, text);
  }
});

Deno.test("what every build has may be asked for", () => {
  assert.deepEqual(parseEntitlement("network.host"), { right: "network.host" });
});
