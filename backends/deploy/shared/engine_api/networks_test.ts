import assert from "node:assert/strict";
import { scriptedDaemon } from "../../../../lib/docker/testing.ts";
import { networksAbility } from "./abilities/managed.ts";
import type { AbilityParts } from "./abilities/parts.ts";
import { parseRoutes } from "../../../../lib/runtime/subnets.ts";
import { dockerNetworks } from "./docker_networks.ts";
import { SERVER } from "./labels.ts";
import { EngineNetworks } from "./networks.ts";

const server = "0123456789abcdef";
const behaviour = { name: "engine", product: "the engine", logDriver: () => undefined };

Deno.test("a network is removed by its id: its name may be the id of somebody else's", async () => {
  const other = "f".repeat(64);
  const own = "a".repeat(64);
  await using daemon = await scriptedDaemon((call) =>
    call.line.startsWith("GET")
      ? call.json([{ Id: own, Name: other, Driver: "bridge", Labels: { [SERVER]: server } }])
      : call.json({})
  );
  const networks = new EngineNetworks(dockerNetworks(daemon.client, server, behaviour), server);
  await networks.remove(other, { attempted: "Cannot remove it" });
  assert.deepEqual(daemon.lines.filter((line) => line.startsWith("DELETE")), [
    `DELETE /v1.41/networks/${own}`,
  ]);
  await assert.rejects(networks.remove("gone", { attempted: "Cannot remove it" }), {
    code: "not_found",
  });
});

Deno.test("a network that goes while it is to be removed was none", async () => {
  let asked = 0;
  const network = { Id: "a".repeat(64), Name: "front", Driver: "bridge" };
  await using daemon = await scriptedDaemon((call) => call.json(asked++ === 0 ? [network] : []));
  const networks = new EngineNetworks(dockerNetworks(daemon.client, server, behaviour), server);
  const parts = { networks, deployments: () => [] } as unknown as AbilityParts;
  assert.equal(await networksAbility(parts).remove("front"), false);
  assert.equal(asked, 2);
});

Deno.test("no network is made over a route of the engine's host", async () => {
  const routes = parseRoutes("10.0.5.0/24 dev eth1 scope link\n127.0.0.0/8 dev lo");
  await using daemon = await scriptedDaemon((call) =>
    call.json(call.line.startsWith("GET") ? [] : { Id: "a".repeat(64) })
  );
  const ensure = (subnet: string, seen = true) =>
    new EngineNetworks(
      dockerNetworks(daemon.client, server, {
        ...behaviour,
        seesRoutes: () => Promise.resolve(seen),
      }),
      server,
      () => Promise.resolve(routes),
    ).ensure({ networks: [{ name: "x", subnet }] });
  for (const subnet of ["10.0.5.4/30", "10.0.0.0/8"]) {
    await assert.rejects(ensure(subnet), {
      code: "conflict",
      message: /the host has a route into .*: 10\.0\.5\.0\/24 dev eth1/,
    });
    await ensure(subnet, false);
  }
  await ensure("10.0.6.0/24");
});
