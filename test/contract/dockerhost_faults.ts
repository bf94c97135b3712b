/** What only Docker's backend is asked for: a daemon that dies in the middle of things, and its networks. */
import assert from "node:assert/strict";
import { eventually } from "../waits.ts";
import type { DeployBackendUnderTest, OwnTest } from "./deploy_suite.ts";
import { execute, quickSpec, runs, shell } from "./deploy_tools.ts";
import type { DockerhostFixture } from "./dockerhost_fixture.ts";
import { engineDies } from "./engine_dies.ts";

export function dockerhostFaults(
  test: OwnTest,
  under: DeployBackendUnderTest,
  { daemon }: DockerhostFixture,
): void {
  const { backend, image, reopen } = under;
  const told = async (name: string, format: string) => {
    const [id] = await containers(name);
    return (await daemon.docker("inspect", "-f", format, id)).stdout.trim();
  };
  const containers = async (name: string) => {
    const filter = `label=svc.deployment=${name}`;
    const { stdout } = await daemon.docker("ps", "-aq", "--filter", filter);
    return stdout.split("\n").filter(Boolean);
  };

  engineDies(test, under, { containers, daemon });

  test("what is no longer permitted is not started again by the daemon either, and is once it is permitted", async () => {
    const name = "narrowed";
    const policy = () => told(name, "{{.HostConfig.RestartPolicy.Name}}");
    try {
      await reopen(undefined, ["capAdd"]);
      const spec = quickSpec(name, image, { capAdd: ["SYS_ADMIN"], restart: "always" });
      await backend().apply(spec);
      const before = await runs(backend(), name);
      assert.equal(await policy(), "always");
      await reopen();
      await eventually("the daemon has given it up", async () => await policy() === "no");
      assert.deepEqual(await runs(backend(), name), before, "it runs on");
      await reopen(undefined, ["capAdd"]);
      await eventually("the daemon has it again", async () => await policy() === "always");
      assert.deepEqual(await runs(backend(), name), before);
      assert.equal((await backend().apply(spec)).action, "unchanged");
    } finally {
      await backend().delete(name);
      await reopen();
    }
  });

  test("labels of an image that other programs act on are empty, unless the server permits them", async () => {
    const name = "labelled";
    const labels = () =>
      told(name, '{{index .Config.Labels "traefik.enable"}} {{index .Config.Labels "tier"}}');
    try {
      const spec = (env = {}) =>
        quickSpec(name, "base:taken", { command: shell("sleep 1000"), env });
      await backend().apply(spec());
      assert.equal(await labels(), "front");
      await reopen(undefined, ["labels"]);
      await backend().apply(spec({ NEW: "1" }));
      assert.equal(await labels(), "true front");
    } finally {
      await backend().delete(name);
      await reopen();
    }
  });

  test("names that Docker refuses are refused with its words, and nothing is left", async () => {
    const name = "misnamed";
    const cases: [Record<string, unknown>, RegExp][] = [
      [{ volumes: ["v:/data"] }, /volume name is too short/],
      [{ networks: ["bridge"] }, /not of this server/],
      [{ user: "no such user" }, /no such user/],
    ];
    for (const [more, words] of cases) {
      await assert.rejects(backend().apply(quickSpec(name, image, more)), words);
      assert.deepEqual([await backend().list(), await containers(name)], [[], []]);
    }
  });

  test("networks: a subnet, an address of one's own, internal ones", async () => {
    const networks = [
      { name: "planned", subnet: "10.123.45.0/24", gateway: "10.123.45.254", ip: "10.123.45.7" },
      { name: "within", internal: true },
    ];
    const [fixed, inside] = ["fixed", "inside"];
    const see = async (name: string, script: string) =>
      (await execute(backend(), name, { command: shell(script) })).stdout;
    try {
      await backend().apply(quickSpec(fixed, image, { networks }));
      await backend().apply(quickSpec(inside, image, { networks: [{ name: "within" }] }));
      const addresses = await see(fixed, "ip -4 addr");
      assert.match(addresses, /inet 10\.123\.45\.7\/24 /);
      assert.match(await see(fixed, "ip route"), /default via 10\.123\.45\.254 /);
      const { stdout } = await daemon.docker("network", "inspect", "-f", "{{.Internal}}", "within");
      assert.equal(stdout.trim(), "true");
      const names = await see(inside, `nslookup ${fixed}`);
      assert.doesNotMatch(names, /10\.123\.45\.7/, "an address of a network that it is not on");
      const fetch = `wget -qO- http://${fixed}:8080/ && echo reached`;
      await eventually("an answer", async () => /reached/.test(await see(inside, fetch)));
      // The address goes from the old one to the new one.
      const again = quickSpec(fixed, image, { networks, env: { NEW: "1" } });
      assert.equal((await backend().apply(again)).action, "replaced");
      assert.match(await see(fixed, "ip -4 addr; echo $NEW"), /inet 10\.123\.45\.7\/24 [^]*\n1\n$/);
      const taken = quickSpec("fixed-b", image, { networks: [networks[0]] });
      await assert.rejects(backend().apply(taken), /in use/);
      assert.equal(await backend().status("fixed-b"), undefined);
      for (const other of [{ subnet: "10.9.0.0/16" }, { internal: true }]) {
        const spec = quickSpec("fixed-b", image, { networks: [{ name: "planned", ...other }] });
        await assert.rejects(backend().apply(spec), {
          code: "conflict",
          message: /its subnet is|one that leads out/,
        });
      }
    } finally {
      await backend().delete(fixed);
      await backend().delete(inside);
    }
    await eventually("the networks are gone", async () => {
      const { stdout } = await daemon.docker("network", "ls", "--format", "{{.Name}}");
      return !/planned|within/.test(stdout);
    });
  });
}
