/** Egress of workloads on the bare backend: what a workload reaches by each route, and that nothing else leads out. */
import assert from "node:assert/strict";
import { join } from "node:path";
import {
  answering,
  EGRESS_PROXY as PROXY,
  get,
  outside,
  proxied,
  socks,
  tunnelled,
} from "../peers/outside.ts";
import { eventually } from "../waits.ts";
import { callersProxy, deploy, deployed, exec, file, NEEDS, waysOut } from "./egress_tools.ts";
import { baseImage, e2eTest, freeSubnetBase, startServer, svc } from "./harness.ts";
import { Client } from "./session_client.ts";

e2eTest(
  "egress: env tells variables; modes and routes that cannot be are refused by name",
  NEEDS,
  async (t) => {
    await using server = await startServer();
    await baseImage(server, "base:1");
    await t.step("the caller's proxy variables, in both spellings", async () => {
      const path = await file(server, { name: "told" });
      const { code, stderr } = await server.svc(["deploy", "-f", path, "--egress", "env"], {
        env: { https_proxy: "http://proxy.test:3128", NO_PROXY: "localhost" },
      });
      assert.equal(code, 0, stderr);
      const { stdout } = await exec(server, "told", "env");
      assert.match(stdout, /^HTTPS_PROXY=http:\/\/proxy\.test:3128$/m);
      assert.match(stdout, /^https_proxy=http:\/\/proxy\.test:3128$/m);
      assert.match(stdout, /^no_proxy=localhost$/m);
    });
    const refused = async (spec: Record<string, unknown>, why: RegExp) => {
      const { code, stderr } = await deploy(server, { name: "no", ...spec });
      assert.notEqual(code, 0);
      assert.match(stderr, why);
      assert.match((await server.svc(["status", "no"])).stderr, /there is none|not found|Cannot/i);
    };
    const proxy = { mode: "proxy", default: "deny" };
    await t.step(
      "client without a session",
      () => refused({ egress: { ...proxy, default: "client" } }, /needs the session of a caller/),
    );
    await t.step(
      "gateway on a server that is none",
      () => refused({ egress: { ...proxy, default: "gateway" } }, /SVC_EGRESS_GATEWAY/),
    );
    await t.step("a script that is none", () =>
      refused(
        { egress: { mode: "proxy", script: "function find() {}" } },
        /egress\.script: it has no function FindProxyForURL/,
      ));
    await t.step(
      "a network of the spec's",
      () => refused({ egress: proxy, networks: ["front"] }, /on a network of its own/),
    );
    await t.step("a rule that cannot be read", () =>
      refused(
        { egress: { ...proxy, rules: [{ pattern: "10.0.0/8", route: "deny" }] } },
        /rules\[0\]\.pattern/,
      ));
    await t.step(
      "the proxy's port for the workload too",
      () => refused({ egress: proxy, expose: [{ container: PROXY }] }, /listenPort/),
    );
    await t.step("an unknown route by a flag", async () => {
      const { code, stderr } = await deploy(server, { name: "no" }, "--egress-default", "clinet");
      assert.equal(code, 2);
      assert.match(stderr, /did you mean client/i);
    });
  },
);

e2eTest("egress: what does not go through the proxy goes nowhere", NEEDS, async (t) => {
  const base = freeSubnetBase();
  await using other = await outside();
  await using loopback = answering("127.0.0.1");
  await using server = await startServer({
    env: {
      SVC_CNI_SUBNET_BASE: base,
      SVC_EGRESS_GATEWAY: "1",
      SVC_EGRESS_POLICY: `!127.0.0.0/8,${other.address}/32`,
    },
  });
  await baseImage(server, "base:1");
  await deployed(server, { name: "free" });
  const rule = (pattern: string, route: string) => ({ pattern, route });
  await deployed(server, {
    name: "walled",
    ports: [{ container: 8080, hostIP: "127.0.0.1" }],
    egress: { mode: "proxy", default: "deny" },
  });
  const { stdout: addresses } = await exec(server, "walled", "ip -4 -o addr show eth0");
  const gateway = /inet (\d+\.\d+\.\d+)\./.exec(addresses)![1] + ".1";

  await t.step(
    "a workload without egress reaches the other machine: the trial is one",
    async () => {
      assert.match(
        (await exec(server, "free", get(other.address, other.port))).stdout,
        /from outside/,
      );
    },
  );
  await t.step("no way out of its own", async () => {
    const ways = Object.entries(waysOut(base, other, gateway));
    const answers = await Promise.all(ways.map(([, script]) => exec(server, "walled", script)));
    const open = ways.flatMap(([name], at) =>
      answers[at].code === 0 ? `${name}: ${answers[at].stdout}` : []
    );
    assert.deepEqual(open, []);
    const { stdout } = await exec(server, "walled", "ls /sys/class/net; cat /etc/resolv.conf");
    assert.deepEqual(stdout.match(/^(eth\d+|lo|nameserver .*)$/gm), [
      "eth0",
      "lo",
      "nameserver 127.0.0.1",
    ]);
  });
  await t.step("denied by the proxy, in each protocol", async () => {
    const http = await exec(server, "walled", proxied(other.address, other.port));
    assert.match(http.stdout, /^HTTP\/1\.1 403 [\s\S]*the egress rules deny it/);
    const connect = await exec(server, "walled", tunnelled(other.address, other.port));
    assert.match(connect.stdout, /^HTTP\/1\.1 403 /);
    const { stdout } = await exec(
      server,
      "walled",
      `${socks(other.address, other.port)} | od -An -tx1`,
    );
    assert.match(stdout, /05 00 05 02 00 01/, "reply 2: not allowed by ruleset");
  });
  await t.step("its published port answers all the same", async () => {
    const status = JSON.parse((await server.svc(["status", "walled", "--output", "json"])).stdout);
    const answer = await fetch(`http://127.0.0.1:${status.ports[0].host}/`);
    assert.match(await answer.text(), /hello from busybox/);
  });
  await t.step("cluster: straight out, and not to the host's loopback", async () => {
    await deployed(server, {
      name: "out",
      egress: {
        mode: "proxy",
        rules: [rule("127.0.0.0/8", "cluster"), rule(`${other.address}:${other.port}`, "cluster")],
        default: "deny",
      },
    });
    await Promise.all([proxied, tunnelled, socks].map(async (ask) => {
      const { stdout } = await exec(server, "out", ask(other.address, other.port));
      assert.match(stdout, /from outside/, ask.name);
    }));
    const { stdout } = await exec(server, "out", "env | grep -i ^https_proxy");
    assert.match(stdout, /^https_proxy=http:\/\/127\.0\.0\.1:3128$/m);
    assert.match(
      (await exec(server, "out", proxied("127.0.0.1", loopback.port))).stdout,
      /^HTTP\/1\.1 50/,
    );
    assert.equal((await exec(server, "out", get(other.address, other.port))).code, 1, "by itself");
    assert.deepEqual(loopback.paths, []);
  });
  await t.step("gateway: as far as SVC_EGRESS_POLICY permits", async () => {
    await deployed(server, { name: "far", egress: { mode: "proxy", default: "gateway" } });
    const { stdout } = await exec(server, "far", proxied(other.address, other.port));
    assert.match(stdout, /from outside/);
    await Promise.all(["127.0.0.1", "localhost", gateway, "192.0.2.1"].map(async (host) => {
      const { stdout } = await exec(server, "far", proxied(host, loopback.port));
      assert.match(stdout, /^HTTP\/1\.1 403 /, host);
    }));
    assert.deepEqual(loopback.paths, []);
  });
  await t.step("while no server runs nothing leads out; the next one plays on", async () => {
    await server.restart();
    await eventually("the way out", async () => {
      const { stdout } = await exec(server, "out", proxied(other.address, other.port));
      return /from outside/.test(stdout);
    });
    assert.equal((await exec(server, "walled", get(other.address, other.port))).code, 1);
  });
  await t.step("a changed rule holds for the replaced instance", async () => {
    await deployed(server, { name: "out", egress: { mode: "proxy", default: "deny" } });
    assert.match(
      (await exec(server, "out", proxied(other.address, other.port))).stdout,
      /^HTTP\/1\.1 403 /,
    );
  });
});

e2eTest("egress: the caller of a session dials what his own rules name", NEEDS, async (t) => {
  await using server = await startServer();
  await using local = answering("127.0.0.1");
  await baseImage(server, "base:1");
  const path = await file(server, {
    name: "near",
    egress: {
      mode: "proxy",
      rules: [{ pattern: `127.0.0.1:${local.port}`, route: "client" }],
      default: "deny",
    },
  });
  await using client = new Client(server, ["-f", path]);
  await client.wrote(/near is deployed/);
  await t.step("his own machine, where a rule names it", async () => {
    const { stdout } = await exec(server, "near", proxied("127.0.0.1", local.port));
    assert.match(stdout, /from the host/);
  });
  await t.step("everything else is denied", async () => {
    const { stdout } = await exec(server, "near", proxied("127.0.0.1", server.port));
    assert.match(stdout, /^HTTP\/1\.1 403 /);
  });
  await t.step("a rule for everything does not mean his own machine", async () => {
    const all = await file(server, { name: "all", egress: { mode: "proxy", default: "client" } });
    await using other = new Client(server, ["-f", all]);
    await other.wrote(/all is deployed/);
    for (const host of ["127.0.0.1", "localhost"]) {
      const { stdout } = await exec(server, "all", proxied(host, local.port));
      assert.match(stdout, /^HTTP\/1\.1 403 [\s\S]*from the caller's machine/, host);
    }
  });
  await t.step("a script decides in place of rules, at both ends", async () => {
    const other = await file(server, { name: "scripted" });
    const script = join(server.dataDir, "proxy.pac");
    await Deno.writeTextFile(
      script,
      `function FindProxyForURL(url, host) {
        return host === "name.test" ? "PROXY client" : "DENY";
      }`,
    );
    using proxy = callersProxy(local.port);
    await using scripted = new Client(
      server,
      ["-f", other, "--egress", "proxy", "--egress-pac", script],
      { HTTP_PROXY: proxy.url },
    );
    await scripted.wrote(/scripted is deployed/);
    const named = await exec(server, "scripted", proxied("name.test", 80));
    assert.match(named.stdout, /from the host/);
    assert.deepEqual(proxy.asked, ["CONNECT name.test:80 HTTP/1.1"]);
    const { stdout } = await exec(server, "scripted", proxied("other.test", 80));
    assert.match(stdout, /^HTTP\/1\.1 403 /);
  });
  await t.step("detached it is refused", async () => {
    const { code, stderr } = await svc(["deploy", "-f", path, "--name", "far"], {
      env: { SVC_SERVER: server.url },
    });
    assert.notEqual(code, 0);
    assert.match(stderr, /needs the session of a caller/);
  });
});
