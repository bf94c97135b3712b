import assert from "node:assert/strict";
import { createServer } from "node:net";
import { svcFake } from "../../test/fixtures/cli.ts";
import type { DeploymentStatus, PublishedPort } from "../api/deployment.ts";
import { SvcError } from "../base/errors.ts";
import { interruption } from "../base/terminal.ts";
import { formatPorts } from "./ps.ts";
import { declaredPorts, parseWanted } from "./port_forward.ts";

const port = (container: number, protocol: PublishedPort["protocol"] = "tcp"): PublishedPort => ({
  hostIP: "0.0.0.0",
  host: 30000 + container,
  container,
  protocol,
});

const status = (ports: PublishedPort[], state: "running" | "exited" = "running") =>
  ({
    name: "web",
    ports,
    instances: [{ id: "web-0", state, restarts: 0 }],
  }) as unknown as DeploymentStatus;

Deno.test("port-forward: ports as kubectl writes them, addresses and UDP", () => {
  const wanted = (text: string) => {
    const { address = "", local, remote, protocol } = parseWanted(text);
    return [address, local, remote, protocol].join(" ");
  };
  assert.equal(wanted("8080:80"), " 8080 80 tcp");
  assert.equal(wanted("80"), " 80 80 tcp");
  assert.equal(wanted(":80"), " 0 80 tcp");
  assert.equal(wanted("0:80"), " 0 80 tcp");
  assert.equal(wanted("53/udp"), " 53 53 udp");
  assert.equal(wanted("127.0.0.2:8080:80/tcp"), "127.0.0.2 8080 80 tcp");
  assert.equal(wanted("127.0.0.2::80"), "127.0.0.2 0 80 tcp");
  assert.equal(wanted("[::1]:8080:80"), "::1 8080 80 tcp");
  const bad = ["", "a", "80:http", "99999", "0", "1:0", "::1:80:80", "80/sctp", "1:2:3:4", " 80"];
  for (const text of bad) assert.throws(() => parseWanted(text), { code: "usage" }, text);
});

Deno.test("port-forward: without ports every one that the deployment declares, once", () => {
  const found = declaredPorts(status([port(80), port(80), port(53, "udp"), port(9, "sctp")]));
  assert.deepEqual(found.map(({ remote, protocol }) => `${remote}/${protocol}`), [
    "80/tcp",
    "53/udp",
  ]);
  const exposed = [{ container: 80, protocol: "tcp" as const }, {
    container: 90,
    protocol: "tcp" as const,
  }];
  const all = declaredPorts({ ...status([port(80)]), exposed });
  assert.deepEqual(all.map(({ remote }) => remote), [80, 90]);
  assert.equal(
    formatPorts({ ...status([port(80)]), exposed }),
    "0.0.0.0:30080->80/tcp, 90/tcp",
  );
  assert.throws(() => declaredPorts(status([])), { code: "argument_invalid" });
  assert.throws(() => declaredPorts(status([], "exited")), { code: "conflict" });
});

/** Runs until it has said where it listens on so many ports, or has ended; then it is interrupted. */
function forward(args: string[], answer: () => DeploymentStatus, lines = 1) {
  const interrupt = new AbortController();
  return svcFake(["port-forward", ...args], {
    signal: interrupt.signal,
    handler: () => Response.json(answer()),
    onOutput: (text) => {
      if (text.split("\n").length > lines) interrupt.abort(interruption("SIGINT"));
    },
  });
}

Deno.test("port-forward: says where it listens, and an interrupt is its good end", async () => {
  using taken = await listener();
  const answer = () => status([port(taken.port), port(5353, "udp")]);
  const { code, stdout, stderr } = await forward(["web"], answer, 2);
  assert.equal(code, 0);
  const said =
    /^Forwarding from 127\.0\.0\.1:(\d+) -> (\d+)\nForwarding from 127\.0\.0\.1:\d+ -> 5353\/udp\n$/
      .exec(stdout);
  assert(said, stdout);
  assert.equal(said[2], String(taken.port));
  assert.notEqual(said[1], said[2]);
  assert.match(stderr, /Cannot listen on 127\.0\.0\.1:\d+: the port is taken; a free port/);

  const json = await forward(["web", ":80", "--output", "json"], answer);
  const { local, ...rest } = JSON.parse(json.stdout);
  assert.deepEqual(rest, { name: "web", address: "127.0.0.1", remote: 80, protocol: "tcp" });
  assert(local > 0);
});

Deno.test("port-forward: what stands in the way is said before anything listens", async () => {
  using taken = await listener();
  const { code, stderr, stdout } = await forward(
    ["web", ":80", `${taken.port}:80`],
    () => status([]),
  );
  assert.equal(code, 1);
  assert.equal(stdout, "");
  assert.match(stderr, /^svc: Cannot listen on 127\.0\.0\.1:\d+: the port is taken\n {2}choose/);
  const missing = await forward(["nobody", "80"], () => {
    throw new SvcError("not_found", "Cannot show nobody: there is no such deployment");
  });
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /^svc: Cannot show nobody/);
  const usage = await svcFake(["port-forward", "web", "80:x"]);
  assert.equal(usage.code, 2);
  assert.deepEqual(usage.requests, []);
});

/** A port that is taken. */
async function listener() {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as { port: number }).port,
    [Symbol.dispose]: () => void server.close(),
  };
}
