/** Egress of mode transparent on the bare backend: connections of programs that know of no proxy. */
import assert from "node:assert/strict";
import { answering, get, outside } from "../peers/outside.ts";
import { eventually } from "../waits.ts";
import { callersProxy, deployed, exec, file, NEEDS, waysOut } from "./egress_tools.ts";
import { baseImage, e2eTest, freeSubnetBase, startServer } from "./harness.ts";
import { Client } from "./session_client.ts";

/** The address that the workload's resolver gives, in `$ip`. */
const resolved = (name: string) =>
  `ip=$(busybox nslookup ${name} | busybox awk '/^Address/{a=$NF} END{print a}')`;

e2eTest(
  "egress: transparent leads every connection, of programs that know of no proxy",
  NEEDS,
  async (t) => {
    const base = freeSubnetBase();
    await using other = await outside();
    await using local = answering("127.0.0.1");
    await using server = await startServer({ env: { SVC_CNI_SUBNET_BASE: base } });
    await baseImage(server, "base:1");
    await deployed(server, { name: "free" });
    const there = { pattern: `${other.address}:${other.port}`, route: "cluster" };
    await deployed(server, {
      name: "clear",
      egress: { mode: "transparent", rules: [there], default: "deny" },
      ports: [{ container: 8080, hostIP: "127.0.0.1" }],
    });
    await t.step("a connection takes the route of its address", async () => {
      const { stdout } = await exec(server, "clear", get(other.address, other.port));
      assert.match(stdout, /from outside/);
      assert.doesNotMatch((await exec(server, "clear", "env")).stdout, /_proxy/i);
    });
    await t.step("nothing else leads out", async () => {
      const { stdout } = await exec(server, "clear", "ip -4 -o addr show eth0");
      const gateway = /inet (\d+\.\d+\.\d+)\./.exec(stdout)![1] + ".1";
      const { "dns of the host": _asked, "tcp to another machine": _led, ...ways } = waysOut(
        base,
        other,
        gateway,
      );
      const tried = Object.entries({
        ...ways,
        "another port": get(other.address, other.port + 1),
        "the server": get(gateway, server.port),
        "udp": `echo x | nc -u -w 2 ${other.address} ${other.port} | grep .`,
      });
      const answers = await Promise.all(tried.map(([, script]) => exec(server, "clear", script)));
      const open = tried.flatMap(([name], at) =>
        answers[at].code === 0 ? `${name}: ${answers[at].stdout}` : []
      );
      assert.deepEqual(open, []);
      const flushed = await exec(server, "clear", "busybox ip link set lo down 2>&1");
      assert.match(flushed.stdout, /not permitted/, "its network is not its own to change");
    });
    await t.step("its own loopback and its published port are its own", async () => {
      assert.match((await exec(server, "clear", get("127.0.0.1", 8080))).stdout, /hello/);
      const status = JSON.parse((await server.svc(["status", "clear", "--output", "json"])).stdout);
      const answer = await fetch(`http://127.0.0.1:${status.ports[0].host}/`);
      assert.match(await answer.text(), /hello from busybox/);
    });
    await t.step("a name goes by its rule, to the caller and through his own proxy", async () => {
      const path = await file(server, {
        name: "named",
        egress: {
          mode: "transparent",
          rules: [{ pattern: "*.corp.test", route: "client" }],
          default: "deny",
        },
      });
      using proxy = callersProxy(local.port);
      const env = { http_proxy: proxy.url, https_proxy: proxy.url, no_proxy: "127.0.0.1" };
      await using client = new Client(server, ["-f", path], env);
      await client.wrote(/named is deployed/);
      const ask = async (name: string) =>
        await exec(server, "named", `${resolved(name)}; ${get("$ip", 8080)}`);
      assert.match((await ask("api.corp.test")).stdout, /from the host/);
      assert.deepEqual(proxy.asked, ["CONNECT api.corp.test:8080 HTTP/1.1"]);
      assert.notEqual((await ask("api.other.test")).code, 0);
      assert.equal(proxy.asked.length, 1);
    });
    await t.step("after a restart of the server it is led again", async () => {
      await server.restart();
      await eventually("the way out", async () => {
        const { stdout } = await exec(server, "clear", get(other.address, other.port));
        return /from outside/.test(stdout);
      });
    });
  },
);
