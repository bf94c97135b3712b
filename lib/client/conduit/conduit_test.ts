import assert from "node:assert/strict";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { duplexPair } from "../../wire/testing.ts";
import type { Conduit, ConduitOptions, Endpoint } from "./conduit.ts";
import { openConduit } from "./conduit.ts";
import type { Services } from "./services.ts";

/** Workloads that say who was asked for. */
const services: Services = {
  async dial(name, port, protocol) {
    const [theirs, ours] = duplexPair();
    await theirs.write(new TextEncoder().encode(`${name}:${port}/${protocol}`));
    await theirs.closeWrite();
    return ours;
  },
  list: () => Promise.resolve([]),
};

function open(more: Partial<ConduitOptions>, warnings: string[] = []): Promise<Conduit> {
  return openConduit({
    mode: "port-forward",
    services,
    deployments: [],
    settings: {},
    warn: (text) => warnings.push(text),
    ...more,
  });
}

const portOf = (address: string) => Number(address.split(":").at(-1));

const read = (address: string) => text(connect(portOf(address), "127.0.0.1"));

const ports = (endpoints: readonly Endpoint[]) =>
  endpoints.flatMap((one) => one.kind === "port" ? [[one.deployment, one.port, one.protocol]] : []);

Deno.test("conduit: port-forward shows each declared port once, of each deployment", async () => {
  const warnings: string[] = [];
  const deployments = [
    {
      name: "web",
      ports: [
        { container: 8080, protocol: "tcp" as const },
        // As a second instance publishes it.
        { container: 8080, protocol: "tcp" as const },
        { container: 8080, protocol: "udp" as const },
        { container: 9, protocol: "sctp" as const },
      ],
    },
    { name: "db", ports: [{ container: 8080, protocol: "tcp" as const }] },
  ];
  await using conduit = await open({ deployments }, warnings);
  assert.deepEqual(ports(conduit.endpoints), [
    ["web", 8080, "tcp"],
    ["web", 8080, "udp"],
    ["db", 8080, "tcp"],
  ]);
  assert.deepEqual(warnings, ["port 9/sctp of web is not forwarded: only tcp and udp are"]);
  const tcp = conduit.endpoints.flatMap((one) =>
    one.kind === "port" && one.protocol === "tcp" ? [one.address] : []
  );
  assert.deepEqual(await Promise.all(tcp.map(read)), ["web:8080/tcp", "db:8080/tcp"]);
  // Nothing but this machine's own programs gets there.
  assert.ok(conduit.endpoints.every(({ address }) => address.startsWith("127.0.0.1:")));
});

Deno.test("conduit: the port's own number where it is free, else another one", async () => {
  const taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = taken.addr;
  const deployments = [{ name: "web", ports: [{ container: port, protocol: "tcp" as const }] }];
  const address = async () => {
    await using conduit = await open({ deployments });
    assert.equal(await read(conduit.endpoints[0].address), `web:${port}/tcp`);
    return portOf(conduit.endpoints[0].address);
  };
  assert.notEqual(await address(), port);
  taken.close();
});

Deno.test("conduit: closing ends the listeners and tells", async () => {
  const deployments = [{ name: "web", ports: [{ container: 80, protocol: "tcp" as const }] }];
  for (const mode of ["port-forward", "socks5"]) {
    const settings = { socks5: { listen: "127.0.0.1:0" } };
    const conduit = await open({ mode, deployments, settings });
    const { address } = conduit.endpoints[0];
    await conduit[Symbol.asyncDispose]();
    await conduit.closed;
    await assert.rejects(read(address), { code: "ECONNREFUSED" });
  }
});

Deno.test("conduit: socks5 is one proxy, with the settings of the profile", async () => {
  const at = async (socks5: NonNullable<ConduitOptions["settings"]["socks5"]>) => {
    await using conduit = await open({
      mode: "socks5",
      settings: { socks5: { listen: "127.0.0.1:0", ...socks5 } },
    });
    assert.equal(conduit.endpoints.length, 1);
    const { address: _, ...endpoint } = conduit.endpoints[0];
    return endpoint;
  };
  assert.deepEqual(await at({}), { kind: "socks5", suffix: ".svc.internal" });
  assert.deepEqual(await at({ "service-host-suffix": ".a" }), { kind: "socks5", suffix: ".a" });
  const resolve = [{ pattern: "a", replace: "b:1" }];
  assert.deepEqual(await at({ resolve }), { kind: "socks5" });
  const taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const listen = `127.0.0.1:${taken.addr.port}`;
  const refused = open({ mode: "socks5", settings: { socks5: { listen } } });
  await assert.rejects(refused, { code: "address_in_use" });
  taken.close();
});
