/** Volumes and networks that svc made: what every backend with these abilities lists and removes. */
import assert from "node:assert/strict";
import type { DeployBackendUnderTest, Test } from "./deploy_suite.ts";
import { execute, quickSpec, shell } from "./deploy_tools.ts";

export function deployVolumes(test: Test, under: DeployBackendUnderTest): void {
  const { backend, image } = under;

  test(
    "volumes: listed with labels and users, removed with their contents once nobody uses them",
    ["volumes", "exec", "spec.volumes.labels"],
    async () => {
      const { inspect, remove } = backend().caps.volumes!;
      const list = () => backend().caps.volumes!.list();
      const volumes = [
        { name: "listed-data", target: "/data", labels: { team: "shop" } },
        { name: "listed-more", target: "/more" },
      ];
      const names = volumes.map(({ name }) => name);
      const ours = async () => (await list()).filter(({ name }) => names.includes(name));
      assert.deepEqual(await ours(), []);
      try {
        await backend().apply(quickSpec("listed", image, { volumes }));
        await backend().apply(quickSpec("listed2", image, { volumes: volumes.slice(0, 1) }));
        const [data, more] = await ours();
        assert.deepEqual([data.name, data.usedBy], ["listed-data", ["listed", "listed2"]]);
        assert.equal(data.labels.team, "shop");
        assert.deepEqual([more.name, more.usedBy], ["listed-more", ["listed"]]);
        assert.deepEqual(await inspect("listed-data"), data);
        assert.ok(
          data.driver !== "" && !Number.isNaN(Date.parse(data.createdAt ?? data.name)) ||
            data.createdAt === undefined,
        );
        await execute(backend(), "listed", { command: shell("echo kept > /data/file") });
        await assert.rejects(remove("listed-data"), {
          code: "conflict",
          message: /listed, listed2/,
        });
        // A deployment that is stopped starts with it again.
        await backend().power("listed2", "stop");
        await backend().delete("listed");
        await assert.rejects(remove("listed-data"), { code: "conflict", message: /listed2/ });
        assert.equal(await remove("listed-more"), true);
        await backend().delete("listed2");
        assert.deepEqual((await inspect("listed-data"))?.usedBy, []);
        await under.reopen();
        assert.deepEqual((await ours()).map(({ name }) => name), ["listed-data"]);
        assert.equal(await backend().caps.volumes!.remove("listed-data"), true);
        await backend().apply(quickSpec("listed", image, { volumes }));
        const { stdout } = await execute(backend(), "listed", { command: ["ls", "/data"] });
        assert.equal(stdout, "", "a new volume of that name is empty");
      } finally {
        for (const name of ["listed", "listed2"]) await backend().delete(name);
        for (const name of names) await backend().caps.volumes!.remove(name);
      }
      assert.deepEqual(await ours(), []);
    },
  );

  test("volumes: what is not there is no volume", ["volumes"], async () => {
    const { inspect, remove } = backend().caps.volumes!;
    for (const name of ["nobody", "../nobody", "", ".", "no/body", "x".repeat(300)]) {
      assert.equal(await inspect(name), undefined, name);
      assert.equal(await remove(name), false, name);
    }
  });

  test(
    "networks: listed with their users, removed once nobody uses them",
    ["networks", "spec.networks.name", "spec.networks.labels"],
    async () => {
      const { list, inspect, remove } = backend().caps.networks!;
      const users = async (name: string) =>
        (await list()).find((network) => network.name === name)?.usedBy;
      const labels = { team: "shop" };
      const networks = ["listed-net", { name: "listed-in", internal: true, labels }];
      try {
        await backend().apply(quickSpec("netted", image, { networks }));
        await backend().apply(quickSpec("netted2", image, { networks: ["listed-net"] }));
        assert.deepEqual(await users("listed-net"), ["netted", "netted2"]);
        assert.deepEqual(await users("listed-in"), ["netted"]);
        const network = (await inspect("listed-net"))!;
        assert.deepEqual([network.name, network.internal], ["listed-net", false]);
        assert.ok(network.driver !== "");
        if (network.subnet !== undefined) assert.match(network.subnet, /^[0-9.]+\/\d+$/);
        const internal = (await inspect("listed-in"))!;
        assert.deepEqual([internal.internal, internal.labels.team], [true, "shop"]);
        await assert.rejects(remove("listed-net"), {
          code: "conflict",
          message: /netted, netted2/,
        });
        await backend().delete("netted2");
        await backend().power("netted", "stop");
        await assert.rejects(remove("listed-net"), { code: "conflict", message: /netted/ });
        await backend().delete("netted");
        await remove("listed-net");
        assert.equal(await inspect("listed-net"), undefined);
        assert.equal(await remove("listed-net"), false);
      } finally {
        for (const name of ["netted", "netted2"]) await backend().delete(name);
        for (const name of ["listed-net", "listed-in"]) await backend().caps.networks!.remove(name);
      }
      for (const name of ["nobody", "../nobody", ""]) {
        assert.equal(await inspect(name), undefined, name);
        assert.equal(await remove(name), false, name);
      }
    },
  );
}
