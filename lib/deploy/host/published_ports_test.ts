import assert from "node:assert/strict";
import { bridgeNetwork } from "../../runtime/network.ts";
import { portTargets, type PublishingInstance, strayAnswers } from "./published_ports.ts";
import type { Standing } from "./standing.ts";

const port = { hostIP: "0.0.0.0", host: 80, container: 8080, protocol: "tcp" as const };

function instance(
  ip: string,
  standing: Standing | undefined,
  { container = 8080, internal = false } = {},
): PublishingInstance {
  const network = bridgeNetwork("10.4", 0, { internal });
  return {
    made: { ports: [{ ...port, container }] },
    networks: [{ network, ifname: "eth0", ip, aliases: [], result: {} }],
    standing,
  };
}

const targets = (...all: PublishingInstance[]) =>
  portTargets(all).flatMap(({ targets }) => targets.map(({ ip, port }) => `${ip}:${port}`));

Deno.test("a published port leads to those that stand best, each by its own port", () => {
  assert.deepEqual(
    targets(
      instance("10.4.0.2", "ready"),
      instance("10.4.0.3", "running"),
      instance("10.4.0.4", "ready", { container: 9090 }),
      instance("10.4.0.5", "trial"),
    ),
    ["10.4.0.2:8080", "10.4.0.4:9090"],
  );
  assert.deepEqual(targets(instance("10.4.0.3", "running"), instance("10.4.0.5", "trial")), [
    "10.4.0.3:8080",
  ]);
  assert.deepEqual(targets(instance("10.4.0.6", "coming")), ["10.4.0.6:8080"]);
  assert.deepEqual(portTargets([instance("10.4.0.2", undefined)]), []);
  assert.deepEqual(targets(instance("10.4.0.2", "ready", { internal: true })), []);
});

Deno.test("UDP flows are led anew where their target has gone, or had none", () => {
  const dns = (...ips: string[]) => ({
    hostIP: "0.0.0.0",
    hostPort: 53,
    protocol: "udp" as const,
    targets: ips.map((ip) => ({ ip, port: 5353 })),
  });
  const [a, b] = ["10.4.0.2", "10.4.0.3"];
  assert.deepEqual(strayAnswers([], [dns(a)]), [{ port: 53 }]);
  assert.deepEqual(strayAnswers([dns(a)], [dns(b, a)]), []);
  assert.deepEqual(strayAnswers([dns(a, b)], [dns(b)]), [{ ip: a, port: 5353 }]);
  assert.deepEqual(strayAnswers([{ ...dns(a), protocol: "tcp" }], []), []);
  const both = { ...dns(), targets: [{ ip: a, ip6: "fd00::2", port: 5353 }] };
  assert.deepEqual(strayAnswers([both], [dns(b)]), [{ ip: a, port: 5353 }, {
    ip: "fd00::2",
    port: 5353,
  }]);
});
