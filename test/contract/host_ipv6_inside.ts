/**
 * Networks of one engine of hosts, mostly those with IPv6, on a host of its own: host_ipv6_test.ts runs this in
 * namespaces, since the networks change how the whole host forwards.
 */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { run } from "../../lib/base/process.ts";
import { cniDirs, CniPlugins } from "../../lib/runtime/cni.ts";
import { makeEndpoint, removeEndpoint } from "../../lib/runtime/endpoints.ts";
import { BridgeDriver, bridgeNetwork, BUILD_NETWORK } from "../../lib/runtime/network.ts";
import { gateway6Of, parseSubnet6 } from "../../lib/runtime/subnets6.ts";
import { refuseOwnNetworks } from "../../lib/server/own_networks.ts";
import type { Route } from "../../lib/server/route.ts";
import { freePort } from "../fixtures/free_port.ts";
import { eventually } from "../waits.ts";
import { bareFixture } from "./bare_fixture.ts";
import { containerdFixture } from "./containerd_fixture.ts";
import { execute, quickSpec, shell } from "./deploy_tools.ts";

const [engine] = Deno.args;
const fixture = engine === "bare" ? await bareFixture() : await containerdFixture();
const backend = await fixture.open([]);
const { image } = fixture;

const ok = async (command: string, ...args: string[]) => {
  const { code, stdout, stderr } = await run(command, args);
  assert.equal(code, 0, `${command} ${args.join(" ")}: ${stderr}`);
  return stdout;
};
const forwarding = async () =>
  (await Deno.readTextFile("/proc/sys/net/ipv6/conf/all/forwarding")).trim();
const rules = () => ok("ip6tables-save");

/** Serves its name to IPv4 and IPv6. */
const serve = (name: string) =>
  shell(
    `mkdir -p /tmp/w && echo ${name} >/tmp/w/index.html && exec httpd -f -p [::]:8080 -h /tmp/w`,
  );
const answer = async (url: string) => {
  const response = await fetch(url, {
    headers: { connection: "close" },
    signal: AbortSignal.timeout(60_000),
  });
  return (await response.text()).trim();
};
/** What a workload is answered; "" where nothing comes. */
const asks = async (name: string, host: string, port: number | string) => {
  const command = shell(
    `{ printf 'GET / HTTP/1.0\\r\\n\\r\\n'; sleep 0.3; } | timeout 2 nc ${host} ${port} | tail -n 1`,
  );
  return (await execute(backend, name, { command })).stdout.trim();
};
/** It is answered so; what serves may listen later than it was started. */
const answered = (text: string, ask: () => Promise<string>) =>
  eventually(`the answer ${text}`, async () => await ask().catch(() => "") === text);
/** Nobody answers the workload at any of those places. */
const isRefused = (name: string, ...places: [host: string, port: number][]) =>
  Promise.all(
    places.map(async ([host, at]) =>
      assert.equal(await asks(name, host, at), "", `${name} ${host}`)
    ),
  );
const attached = async (name: string) =>
  (await execute(backend, name, { command: ["ip", "-6", "addr", "show", "dev", "eth0"] })).stdout;
const address6 = async (name: string) => /inet6 (fd\S+)\/64/.exec(await attached(name))![1];

const step = async (title: string, fn: () => Promise<void>) => {
  await fn();
  console.log(`ok ${title}`);
};

/** Another machine, which reaches the host's addresses, and has a route to its networks. */
const OUT = { host: "fd77::1", address: "fd77::2", address4: "10.77.0.2", port: 8081 };
await ok("ip", "netns", "add", "out");
await ok("ip", "link", "add", "outh", "type", "veth", "peer", "name", "eth0", "netns", "out");
await ok("ip", "addr", "add", `${OUT.host}/64`, "dev", "outh", "nodad");
await ok("ip", "addr", "add", "10.77.0.1/24", "dev", "outh");
await ok("ip", "link", "set", "outh", "up");
await ok("ip", "-n", "out", "addr", "add", `${OUT.address}/64`, "dev", "eth0", "nodad");
await ok("ip", "-n", "out", "addr", "add", `${OUT.address4}/24`, "dev", "eth0");
await ok("ip", "-n", "out", "link", "set", "eth0", "up");
await ok("ip", "-n", "out", "route", "add", "default", "via", "10.77.0.1");
await ok("ip", "-n", "out", "route", "add", "default", "via", OUT.host);
const folder = await Deno.makeTempDir();
await Deno.writeTextFile(`${folder}/index.html`, "outside\n");
const elsewhere = new Deno.Command("ip", {
  args: ["netns", "exec", "out", "busybox", "httpd", "-f", "-p", `[::]:${OUT.port}`, "-h", folder],
}).spawn();
const fromOutside = async (host: string, port: number) => {
  const command = `printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 2 busybox nc ${host} ${port}`;
  const { stdout } = await run("ip", ["netns", "exec", "out", "sh", "-c", command]);
  return stdout.trim().split("\n").at(-1)!.trim();
};
/** A service of the host, on every address. */
const service = Deno.serve(
  { hostname: "::", port: 0, onListen: () => {} },
  () => new Response("host\n"),
);
const servicePort = (service.addr as Deno.NetAddr).port;

const n6 = (more: Record<string, unknown> = {}) => [{ name: "six", enableIPv6: true, ...more }];
const port = freePort();
let subnet6 = "";

await step(
  "IPv4: the host forwards for its networks alone, and into them to published ports",
  async () => {
    const sysctl = "/proc/sys/net/ipv4/ip_forward";
    await Deno.writeTextFile(sysctl, "0");
    const ports = [`${port}:8080`];
    const { deployment: { instances: [{ ip }] } } = await backend.apply(
      quickSpec("four", image, { command: serve("four"), ports }),
    );
    assert.equal((await Deno.readTextFile(sysctl)).trim(), "1");
    assert.match(await ok("iptables-save", "-t", "filter"), /^:FORWARD DROP/m);
    await eventually("it serves", async () => await fromOutside("10.77.0.1", port) === "four");
    assert.equal(await asks("four", OUT.address4, OUT.port), "outside");
    // As where the host forwarded before, for everybody.
    await ok("iptables", "-P", "FORWARD", "ACCEPT");
    assert.equal(await fromOutside(ip!, 8080), "", "past the published port");
    await backend.delete("four");
  },
);

await step("without it nothing of IPv6 is touched", async () => {
  await backend.apply(quickSpec("plain", image, { command: serve("plain") }));
  assert.equal(await forwarding(), "0");
  assert.match(await rules(), /^(?!.*svc)/s);
  assert.equal((await attached("plain")).includes("inet6 fd"), false);
  await backend.delete("plain");
});

await step(
  "a workload has addresses of both families; the host forwards, and nobody else's",
  async () => {
    const { deployment } = await backend.apply(
      quickSpec("web", image, { command: serve("web"), networks: n6(), ports: [`${port}:8080`] }),
    );
    assert.deepEqual(deployment.warnings, []);
    ({ subnet6 = "" } = (await backend.caps.networks!.inspect("six"))!);
    assert.match(subnet6, /^fd.*::\/64$/);
    assert.ok((await address6("web")).startsWith(subnet6.slice(0, -5)));
    assert.equal(await forwarding(), "1");
    assert.match(await rules(), /^:FORWARD DROP/m);
  },
);

await step("its port is published on [::], [::1], 127.0.0.1 and to other machines", async () => {
  for (const host of ["127.0.0.1", "[::1]", `[${OUT.host}]`, `[${gateway6Of(subnet6)}]`]) {
    await answered("web", () => answer(`http://${host}:${port}/`));
  }
  await answered("web", () => fromOutside(OUT.host, port));
  assert.equal(await fromOutside(await address6("web"), 8080), "", "past the published port");
});

await step("an address that was asked for; names by AAAA and in hosts files", async () => {
  const fixed = subnet6.replace("::/64", "::50");
  await backend.apply(
    quickSpec("peer", image, { networks: n6({ ipv6: fixed, aliases: ["buddy"] }) }),
  );
  assert.equal(await address6("peer"), fixed);
  const hosts = (await execute(backend, "web", { command: ["cat", "/etc/hosts"] })).stdout;
  assert.match(hosts, new RegExp(`^${fixed}\\tpeer peer-0 buddy$`, "m"));
  const found = await execute(backend, "web", {
    command: ["busybox", "nslookup", "-type=aaaa", "buddy"],
  });
  assert.match(found.stdout, new RegExp(`Address: ${fixed}`), found.stderr);
  const there = await address6("web");
  await answered("web", () => asks("peer", there, 8080));
});

await step("out of it: other machines, and of the host what listens on the gateway", async () => {
  await answered("outside", () => asks("web", OUT.address, OUT.port));
  await answered("host", () => asks("web", gateway6Of(subnet6), servicePort));
  const link = await ok("ip", "-6", "addr", "show", "scope", "link");
  const [local] = link.match(/fe80:\S+(?=\/64)/)!;
  await isRefused("web", ["::1", servicePort], [`${local}%eth0`, servicePort]);
});

await step(
  "another network is apart, an internal one closed; IPv4 alone stays as it is",
  async () => {
    const there = await address6("web");
    await Promise.all([
      backend.apply(quickSpec("far", image, { networks: [{ name: "six-b", enableIPv6: true }] })),
      backend.apply(
        quickSpec("inner", image, {
          command: serve("inner"),
          networks: [{ name: "six-i", enableIPv6: true, internal: true }],
        }),
      ),
    ]);
    const { subnet6: closed = "" } = (await backend.caps.networks!.inspect("six-i"))!;
    const within = `http://[${await address6("inner")}]:8080/`;
    await answered("inner", () => answer(within));
    await Promise.all([
      answered("web", () => asks("far", gateway6Of(subnet6), port)),
      isRefused("far", [there, 8080]),
      isRefused(
        "inner",
        ...[[OUT.address, OUT.port], [gateway6Of(closed), servicePort], [there, 8080]] as [
          string,
          number,
        ][],
      ),
    ]);
    assert.notEqual(parseSubnet6(closed)!.first, parseSubnet6(subnet6)!.first);
  },
);

await step(
  "no router of a workload's is taken, and nothing is published where there is no IPv6",
  async () => {
    const bridges = (await ok("ip", "-o", "link", "show", "type", "bridge")).matchAll(
      /: (svc[^:@]+)/g,
    );
    for (const [, bridge] of bridges) {
      const sysctl = `/proc/sys/net/ipv6/conf/${bridge}/accept_ra`;
      assert.equal((await Deno.readTextFile(sysctl)).trim(), "0", bridge);
    }
    const spec = quickSpec("four", image, { ports: [`[${OUT.host}]:${freePort()}:8080`] });
    const { deployment } = await backend.apply(spec);
    assert.match(deployment.warnings.join(), /nothing is published at IPv6 addresses/);
  },
);

await step(
  "this server's API knows its workloads by IPv6 too; steps of builds have none",
  async () => {
    const refuse = refuseOwnNetworks(fixture.subnetBase);
    const route = { path: "/.svc/v1/info", method: "GET" } as Route;
    const there = await address6("web");
    assert.throws(() => refuse(route, `[${there}]:4000`), { code: "denied" });
    refuse(route, `[${OUT.address}]:4000`);
    refuse(route, `[${gateway6Of(subnet6)}]:4000`);
    const bridges = new BridgeDriver(new CniPlugins(cniDirs()), `${fixture.dataDir}/builds`);
    const network = bridgeNetwork(fixture.subnetBase, BUILD_NETWORK, { apart: true });
    const place = { containerId: "step", netns: `${fixture.dataDir}/step` };
    const [{ ip6, result }] = await makeEndpoint(bridges, place, [network]);
    assert.equal(ip6, undefined);
    const off = `/proc/sys/net/ipv6/conf/${network.bridge}/disable_ipv6`;
    assert.equal((await Deno.readTextFile(off)).trim(), "1");
    await removeEndpoint(bridges, place, network, result);
    await bridges.removeNetwork(network);
  },
);

/** Answers datagrams in the instance's network with that text; no program of the image can. */
async function answersUdp(name: string, text: string): Promise<Deno.ChildProcess> {
  const [{ pid }] = (await backend.status(name))!.instances;
  const script = `const socket = (await import("node:dgram")).createSocket("udp6");
    socket.on("message", (_, { port, address }) => socket.send("${text}", port, address));
    socket.bind(5353, "::");`;
  const args = ["-n", "-t", String(pid), Deno.execPath(), "eval", script];
  return new Deno.Command("nsenter", { args, stdout: "null", stderr: "null" }).spawn();
}

await step("UDP flows follow a replacement, also those to [::1]", async () => {
  const at = freePort();
  const spec = (version: string) =>
    quickSpec("dns", image, {
      ...{ env: { VERSION: version }, networks: n6(), ports: [`${at}:5353/udp`] },
    });
  const socket = createSocket("udp6");
  socket.bind();
  await once(socket, "listening");
  const hosts = [OUT.host, "::1"];
  const last = new Map<string, string>();
  socket.on("message", (bytes, { address }) => last.set(address, bytes.toString()));
  for (const version of ["one", "two"]) {
    await backend.apply(spec(version));
    const server = await answersUdp("dns", version);
    await eventually(version, () => {
      for (const host of hosts) socket.send("?", at, host);
      return Promise.resolve(hosts.every((host) => last.get(host) === version));
    });
    server.kill("SIGKILL");
    await server.status;
  }
  socket.close();
});

await step("nothing is left", async () => {
  for (const { name } of await backend.list()) await backend.delete(name);
  await backend[Symbol.asyncDispose]();
  assert.doesNotMatch(await rules(), /svc|SVC/);
  assert.doesNotMatch(await ok("iptables-save"), /svc:|SVC/);
  assert.doesNotMatch(await ok("ip", "-o", "link"), /: svc/);
  await assert.rejects(fetch(`http://[::1]:${port}/`));
});

elsewhere.kill("SIGKILL");
await service.shutdown();
await fixture[Symbol.asyncDispose]();
Deno.exit(0);
