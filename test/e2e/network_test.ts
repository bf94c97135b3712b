/** Who reaches whom: steps of builds, workloads of several networks, the host, and this server's own API. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { answering, ask, get, outside } from "../peers/outside.ts";
import { eventually } from "../waits.ts";
import { withContext } from "./build_helpers.ts";
import {
  baseImage,
  e2eTest,
  freePort,
  freeSubnetBase,
  type RunOutput,
  runTool,
  type Server,
  startServer,
} from "./harness.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "skopeo", "ip", "nsenter"],
};

function ok({ code, stdout, stderr }: RunOutput): string {
  assert.equal(code, 0, `exit code ${code}: ${stderr}${stdout}`);
  return stdout + stderr;
}

/** Builds one RUN of the base image; gives what it printed, with the client's exit code. */
async function run(
  server: Server,
  script: string,
  { args = [], flags = "" }: { args?: string[]; flags?: string } = {},
): Promise<RunOutput> {
  const Dockerfile = `FROM ${server.host}/base:1\nRUN ${flags} ${script}\n`;
  let output: RunOutput | undefined;
  await withContext({ Dockerfile }, async (folder) => {
    output = await server.svc(["build", "--no-cache", "--progress", "plain", ...args, folder]);
  });
  return output!;
}

async function deploy(server: Server, spec: Record<string, unknown>): Promise<RunOutput> {
  const file = join(server.dataDir, `${crypto.randomUUID()}.json`);
  const image = `${server.host}/base:1`;
  await Deno.writeTextFile(file, JSON.stringify({ image, ...spec }));
  try {
    return await server.svc(["deploy", "-f", file]);
  } finally {
    await Deno.remove(file);
  }
}

/** True where a workload gets an answer of HTTP from there. */
async function reaches(server: Server, name: string, host: string, port = 8080): Promise<boolean> {
  const { code } = await server.svc(["exec", name, "--", "sh", "-c", get(host, port)]);
  return code === 0;
}

/** Asks all at once, for what is not answered takes seconds; fails naming those that it is not so for. */
async function reach(
  server: Server,
  expected: boolean,
  ...ways: [name: string, host: string, port?: number][]
): Promise<void> {
  const found = await Promise.all(ways.map((way) => reaches(server, ...way)));
  assert.deepEqual(ways.filter((_, at) => found[at] !== expected), []);
}

async function addressOf(server: Server, name: string): Promise<string> {
  const { stdout } = await server.svc([
    "exec",
    name,
    "--",
    "ip",
    "-4",
    "-o",
    "addr",
    "show",
    "eth0",
  ]);
  return /inet ([\d.]+)\//.exec(stdout)![1];
}

const bridges = (base: string) =>
  Deno.networkInterfaces().filter(({ address }) => address.startsWith(`${base}.`)).map(({ name }) =>
    name
  );

const SPEC = JSON.stringify({ name: "taken", image: "x", privileged: true });

e2eTest("RUN reaches out, and neither the host's loopback, nor its sockets, nor its neighbours", {
  ...NEEDS,
}, async (t) => {
  const base = freeSubnetBase();
  await using server = await startServer({
    listen: "0.0.0.0",
    env: { SVC_CNI_SUBNET_BASE: base },
  });
  await baseImage(server, "base:1");
  const gateway = `${base}.255.1`;
  await using loopback = answering("127.0.0.1");
  await using everywhere = answering("0.0.0.0");
  await using other = await outside();
  await t.step("it has the way out that docker's bridge gives, and names", async () => {
    const script = `cat /etc/resolv.conf && nc -w 3 ${gateway} 53 < /dev/null && ` +
      get(other.address, other.port);
    const output = ok(await run(server, script));
    assert.match(output, /from outside/);
    assert.match(output, new RegExp(`nameserver ${gateway}`));
  });
  await t.step(
    "services of the host that listen everywhere are reached, as with docker",
    async () => {
      const script = `grep gw.example /etc/hosts; ${get(gateway, everywhere.port)}`;
      const args = ["--add-host", "gw.example:host-gateway"];
      const output = ok(await run(server, script, { args }));
      assert.match(output, /from the host/);
      assert.match(output, new RegExp(`${RegExp.escape(gateway)}\\tgw.example`));
    },
  );
  await t.step("loopback", async () => {
    const tried = ["127.0.0.1", gateway].map((host) => run(server, get(host, loopback.port)));
    for (const { code } of await Promise.all(tried)) assert.notEqual(code, 0);
    assert.deepEqual(loopback.paths, []);
  });
  await t.step("its abstract sockets", async () => {
    const script = `readlink /proc/self/ns/net && grep -c @ /proc/net/unix | sed s/^/sockets:/`;
    const output = ok(await run(server, script));
    assert.match(output, /sockets:0/);
    assert.doesNotMatch(
      output,
      new RegExp(RegExp.escape(await Deno.readLink("/proc/self/ns/net"))),
    );
  });
  await t.step(
    "this server's own API, by none of the host's addresses; images are pulled",
    async () => {
      ok(await deploy(server, { name: "w" }));
      const asks = [
        "GET /.svc/v1/info",
        "GET /.svc/v1/deployments",
        "POST /v2/base/blobs/uploads/",
        "PUT /.svc/v1/deployments/taken",
      ];
      const asked = async (host: string) => {
        const pull = get(host, server.port, "/v2/base/manifests/1");
        const script = asks.map((line) => ask(line, host, server.port, SPEC));
        const output = ok(await run(server, [pull, ...script].join("; echo; ")));
        const codes = output.match(/(?<=HTTP\/1\.[01] )\d\d\d/g);
        assert.deepEqual(codes, ["200", ...asks.map(() => "403")], output);
        assert.match(output, /SVC_WORKLOAD_API/);
      };
      await Promise.all([gateway, `${base}.0.1`].map(asked));
      const { stdout } = await server.svc(["ps"]);
      assert.doesNotMatch(stdout, /taken/);
    },
  );
  await t.step("workloads", async () => {
    const address = await addressOf(server, "w");
    assert.notEqual((await run(server, get(address, 8080))).code, 0);
  });
  await t.step("other builds, nor they it", async () => {
    const holding = run(
      server,
      `(mkdir /p; httpd -p 9000 -h /p; ip=$(ip -4 -o addr show eth0 | awk '{print $4}'); ` +
        `${get(gateway, everywhere.port, "/at/${ip%/*}")}; ` +
        `while ${get(gateway, everywhere.port, "/more")}; do sleep 1; done)`,
    );
    const at = () => everywhere.paths.find((path) => path.startsWith("/at/"));
    await eventually("a build that serves", () => at() !== undefined);
    const address = at()!.slice("/at/".length);
    assert.match(address, new RegExp(`^${RegExp.escape(base)}\\.255\\.`));
    const tried = [0, 1].map(() => run(server, get(address, 9000)));
    for (const { code } of await Promise.all(tried)) assert.notEqual(code, 0);
    await everywhere[Symbol.asyncDispose]();
    await holding;
  });
  await t.step("workloads are refused the API as well", async () => {
    for (const host of [`${base}.0.1`, gateway]) {
      const script = get(host, server.port, "/.svc/v1/info");
      const { stdout } = await server.svc(["exec", "w", "--", "sh", "-c", script]);
      assert.match(stdout, /^HTTP\S+ 403/, host);
    }
  });
  await t.step("--network=none has no network; host is refused", async () => {
    assert.match(ok(await run(server, "ip -o link | wc -l", { flags: "--network=none" })), /\b1\n/);
    const refused = await run(server, "true", {
      flags: "--network=host",
      args: ["--allow", "network.host"],
    });
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /SVC_BUILD_ENTITLEMENTS/);
  });
  await t.step(
    "namespaces of a killed server go at the next start, the network with the server",
    async () => {
      await server.kill9();
      await server.restart();
      ok(await run(server, get(other.address, other.port)));
      await server.svc(["rm", "w"]);
      await server.stop();
      assert.deepEqual(bridges(base), []);
      const { stdout } = await runTool("iptables-save", []);
      assert.doesNotMatch(stdout, new RegExp(`${RegExp.escape(base)}\\.`));
      await server.restart();
    },
  );
});

e2eTest("SVC_WORKLOAD_API=open, and network.host where the server grants it", NEEDS, async () => {
  const base = freeSubnetBase();
  await using server = await startServer({
    listen: "0.0.0.0",
    env: {
      SVC_CNI_SUBNET_BASE: base,
      SVC_WORKLOAD_API: "open",
      SVC_BUILD_ENTITLEMENTS: "network.host",
    },
  });
  await baseImage(server, "base:1");
  await using loopback = answering("127.0.0.1");
  const info = get(`${base}.255.1`, server.port, "/.svc/v1/info");
  assert.match(ok(await run(server, info)), /HTTP\S+ 200/);
  const script = get("127.0.0.1", loopback.port);
  const asked = ["--allow", "network.host"];
  assert.match(ok(await run(server, script, { flags: "--network=host", args: asked })), /the host/);
  assert.match(ok(await run(server, script, { args: ["--network", "host"] })), /from the host/);
  assert.equal((await run(server, script, { flags: "--network=host" })).code, 1);
});

e2eTest(
  "a host without CNI plugins: RUN says what to install; SVC_BUILD_NETWORK",
  NEEDS,
  async () => {
    const lacking = { SVC_CNI_BIN_DIR: "/nonexistent" };
    {
      await using server = await startServer({ env: lacking });
      await baseImage(server, "base:1");
      const { code, stderr } = await run(server, "true");
      assert.equal(code, 1);
      assert.match(stderr, /containernetworking-plugins/);
      assert.match(stderr, /SVC_BUILD_NETWORK/);
      ok(await run(server, "true", { flags: "--network=none" }));
    }
    for (const [network, links] of [["none", /\b1\n/], ["host", /eth|\d+\n/]] as const) {
      await using server = await startServer({ env: { ...lacking, SVC_BUILD_NETWORK: network } });
      await baseImage(server, "base:1");
      assert.match(ok(await run(server, "ip -o link | wc -l")), links);
    }
  },
);

e2eTest("workloads reach their own networks and what is published; internal ones nothing else", {
  ...NEEDS,
}, async (t) => {
  const base = freeSubnetBase();
  await using server = await startServer({
    listen: "0.0.0.0",
    env: { SVC_CNI_SUBNET_BASE: base },
  });
  await baseImage(server, "base:1");
  await using everywhere = answering("0.0.0.0");
  await using other = await outside();
  const on = (name: string, ...more: Record<string, unknown>[]) => ({
    name,
    networks: more.length > 0 ? more : undefined,
  });
  const port = freePort();
  ok(await deploy(server, on("free")));
  ok(await deploy(server, on("one", { name: "first" })));
  ok(await deploy(server, on("peer", { name: "first" })));
  ok(
    await deploy(server, {
      ...on("two", { name: "second" }),
      ports: [{ host: port, container: 8080 }],
    }),
  );
  ok(await deploy(server, on("hidden", { name: "third", internal: true })));
  const names = ["free", "one", "peer", "two", "hidden"];
  const addresses = new Map<string, string>();
  for (const name of names) addresses.set(name, await addressOf(server, name));

  await t.step("one network: reached; another one: not", async () => {
    await reach(server, true, ["one", addresses.get("peer")!]);
    const apart = ["free", "one", "two"].flatMap((from) =>
      ["free", "one", "two", "hidden"].filter((to) => to !== from)
        .map((to): [string, string] => [from, addresses.get(to)!])
    );
    await reach(server, false, ...apart);
  });
  await t.step(
    "a published port by the host's addresses, from every network that leads out",
    async () => {
      const host = `${base}.0.1`;
      await reach(server, true, ["free", host, port], ["one", host, port], ["two", host, port]);
      await reach(server, false, ["hidden", host, port]);
    },
  );
  await t.step("the host and what is behind it, but for internal networks", async () => {
    const all = (name: string, ...hosts: string[]): [string, string, number][] => [
      ...hosts.map((host): [string, string, number] => [name, host, everywhere.port]),
      [name, other.address, other.port],
    ];
    const host = `${base}.0.1`;
    await reach(server, true, ...all("free", host), ...all("one", host));
    const gateway = addresses.get("hidden")!.replace(/\d+$/, "1");
    await reach(server, false, ...all("hidden", gateway, host));
  });
  await t.step(
    "internal belongs to the network: whoever joins it is on an internal one",
    async () => {
      const file = {
        ...on("joined", { name: "third" }),
        ports: [{ host: freePort(), container: 8080 }],
      };
      const output = ok(await deploy(server, file));
      assert.match(output, /nothing is published on an internal network/);
      await reach(server, false, ["joined", other.address, other.port]);
      await reach(
        server,
        true,
        ["hidden", await addressOf(server, "joined")],
        ["joined", addresses.get("hidden")!],
      );
      const refused = await deploy(server, on("late", { name: "first", internal: true }));
      assert.equal(refused.code, 1);
      assert.match(refused.stderr, /leads out/);
      const strict = await deploy(server, { ...file, name: "strict", strict: true });
      assert.equal(strict.code, 1);
    },
  );
  await t.step(
    "with a network that leads out beside it, that one has the way out and the ports",
    async () => {
      const published = freePort();
      ok(
        await deploy(server, {
          ...on("both", { name: "third" }, { name: "first" }),
          ports: [{ host: published, container: 8080 }],
        }),
      );
      await reach(
        server,
        true,
        ["both", other.address, other.port],
        ["both", addresses.get("hidden")!],
      );
      const answer = await fetch(`http://127.0.0.1:${published}/`);
      assert.match(await answer.text(), /hello/);
    },
  );
  await t.step(
    "bridges that nobody uses go: the named ones at once, all at the server's end",
    async () => {
      for (const name of ["two", "hidden", "joined", "both"]) ok(await server.svc(["rm", name]));
      await eventually("two are left", () => bridges(base).length === 2);
      ok(await server.svc(["rm", "one"]));
      ok(await server.svc(["rm", "peer"]));
      await server.stop();
      assert.equal(bridges(base).length, 1, "a workload that runs keeps its network");
      await server.restart();
      await reach(server, true, ["free", other.address, other.port]);
      ok(await server.svc(["rm", "free"]));
      await server.stop();
      assert.deepEqual(bridges(base), []);
      await server.restart();
    },
  );
});
