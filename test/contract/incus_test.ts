/** The contract of deploy backends, by Incus. */
import assert from "node:assert/strict";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import { requireTools, runTool } from "../e2e/harness.ts";
import { INCUS_NEEDS } from "../peers/incus.ts";
import { deployContract } from "./deploy_suite.ts";
import { engineFaults } from "./engine_faults.ts";
import { quickSpec, runs } from "./deploy_tools.ts";
import { type IncusFixture, incusFixture } from "./incus_fixture.ts";

/** Incus uses control groups of the second version alone. */
async function noMemory() {
  const { stdout } = await new Deno.Command("unshare", {
    args: ["-m", "sh", "-c", "mount -t cgroup2 cgroup2 /mnt && cat /mnt/cgroup.controllers"],
    stderr: "null",
  }).output();
  if (new TextDecoder().decode(stdout).split(/\s/).includes("memory")) return {};
  return { groups: "control groups of the second version count no memory on this host" };
}

deployContract({
  name: "incus",
  lacks: await noMemory(),
  ...requireTools(INCUS_NEEDS),
  open: () => incusFixture(),
  own: (test, under, { peer, other: otherServer }) => {
    const names = async (...args: string[]) =>
      (await peer.incus(...args, "--format", "csv", "--columns", "n")).stdout.split("\n")
        .filter(Boolean);
    const made = async () => ({
      containers: await names("list"),
      networks: (await names("network", "list")).filter((name) => name.startsWith("svc")),
      volumes: await names("storage", "volume", "list", "default", "type=custom"),
    });
    const forget = async () => {
      const { stdout } = await peer.incus("image", "list", "--format", "csv", "--columns", "F");
      const images = stdout.split("\n").filter(Boolean);
      for (const image of images) await peer.incus("image", "delete", image);
      return images.length;
    };
    engineFaults(test, under, { socket: peer.socket, made, forget });
    test("two servers of one daemon do not touch each other's", async () => {
      const { backend, image } = under;
      const name = "shared";
      const [networks, volumes] = [["between"], ["kept-apart:/data"]];
      await using other = await otherServer();
      try {
        await backend().apply(quickSpec(name, image, { networks, volumes }));
        assert.deepEqual(await other.list(), []);
        assert.equal(await other.delete(name), false);
        await assert.rejects(other.apply(quickSpec(name, image, { volumes })), {
          code: "conflict",
          message: /not of this server|did not make/,
        });
        const before = await runs(backend(), name);
        const action = async (backend: DeployBackend) =>
          (await backend.apply(quickSpec(name, image, { networks }))).action;
        assert.equal(await action(other), "created");
        assert.deepEqual(await runs(backend(), name), before);
        assert.equal((await backend().list()).length, 1);
        assert.equal(await other.delete(name), true);
        assert.deepEqual(await runs(backend(), name), before);
      } finally {
        await other.delete(name);
        await backend().delete(name);
        await backend().caps.volumes!.remove("kept-apart");
      }
    });
    test("a subnet over a route of the daemon's host is refused, and nothing is left", async () => {
      // In the daemon's network, in which the test is.
      const route = ["blackhole", "10.213.7.0/24"];
      await runTool("ip", ["route", "add", ...route]);
      try {
        const networks = [{ name: "over", subnet: "10.213.0.0/16" }];
        await assert.rejects(under.backend().apply(quickSpec("over", under.image, { networks })), {
          code: "conflict",
          message: /Cannot use network over: .* has a route into 10\.213\.0\.0\/16: blackhole/,
        });
        assert.equal(await under.backend().status("over"), undefined);
      } finally {
        await runTool("ip", ["route", "del", ...route]);
      }
    });
  },
});

/** What a deployment is refused with; nothing of it is left. */
async function refusal({ peer, image }: IncusFixture, backend: DeployBackend) {
  const error = await backend.apply(quickSpec("web", image)).then(
    () => assert.fail("it was deployed"),
    (error: unknown) => error as { code: string; message: string; help: string },
  );
  assert.equal(error.code, "prerequisite_missing", error.message);
  assert.equal(await backend.status("web"), undefined);
  assert.equal((await peer.incus("list", "--format", "csv")).stdout.trim(), "");
  assert.doesNotMatch((await peer.incus("network", "list", "--format", "csv")).stdout, /^svc/m);
  return error;
}

Deno.test({
  name: "incus: what the daemon's host lacks is told with what to do, and nothing is left",
  ...requireTools(INCUS_NEEDS),
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    await t.step("the registry as one of plain HTTP", async () => {
      await using fixture = await incusFixture({ unknownRegistry: true });
      await using backend = await fixture.open([]);
      const { message, help } = await refusal(fixture, backend);
      assert.match(message, /speaks plain HTTP, and the daemon's host does not allow that/);
      assert.match(help, /registries\.conf\.d/);
      await fixture.trust();
      assert.equal((await backend.apply(quickSpec("web", fixture.image))).action, "created");
      await backend.delete("web");
    });
    await t.step("skopeo", async () => {
      await using fixture = await incusFixture({ without: ["skopeo"] });
      await using backend = await fixture.open([]);
      const { message, help } = await refusal(fixture, backend);
      assert.match(message, /the daemon's host has no skopeo/);
      assert.match(help, /install skopeo/);
    });
  },
});
