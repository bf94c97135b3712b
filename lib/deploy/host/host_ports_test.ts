import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import type { PublishedPort } from "../../api/deployment.ts";
import { choosePorts, collide, requireFree } from "./host_ports.ts";

const port = (host: number, more: Partial<PublishedPort> = {}): PublishedPort => ({
  hostIP: "127.0.0.1",
  host,
  container: 80,
  protocol: "tcp",
  ...more,
});

Deno.test("ports collide by number, protocol and overlapping address", () => {
  assert.ok(collide(port(80), port(80, { container: 1 })));
  assert.ok(collide(port(80), port(80, { hostIP: "0.0.0.0" })));
  assert.ok(!collide(port(80), port(80, { protocol: "udp" })));
  assert.ok(!collide(port(80), port(80, { hostIP: "127.0.0.2" })));
});

Deno.test("a port in use is refused by address, whoever has it", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const used = port(listener.addr.port);
  await assert.rejects(requireFree([used], []), {
    code: "port_in_use",
    message: `Cannot publish 127.0.0.1:${used.host}: address in use`,
  });
  await assert.rejects(
    requireFree([port(9)], [{ port: port(9), by: "other" }]),
    /by deployment other/,
  );
  const free = port(0);
  await assert.rejects(requireFree([port(1, { hostIP: "192.0.2.1" })], []), /no such address/);
  await requireFree([free, port(0, { protocol: "udp", container: 1, host: 0 })], []);
});

Deno.test("open ports are chosen, kept across a replacement, and differ", async () => {
  const open = { container: 80, protocol: "tcp" as const, hostIP: "127.0.0.1" };
  const [first] = await choosePorts([open]);
  assert.ok(first.host > 0);
  assert.equal((await choosePorts([open], { before: [first] }))[0].host, first.host);
  const [fixed] = await choosePorts([{ ...open, host: 8080 }], { before: [first] });
  assert.equal(fixed.host, 8080);
});

/** Ports that the kernel gives to whoever asks for any. */
const [FIRST, LAST] = Deno.build.os === "linux"
  ? Deno.readTextFileSync("/proc/sys/net/ipv4/ip_local_port_range").split(/\s+/).map(Number)
  : [0, 0];

Deno.test({
  name: "an open port is none that the kernel gives to others, nor another deployment's",
  ignore: FIRST <= 20_100,
}, async () => {
  const open = { container: 80, protocol: "tcp" as const, hostIP: "127.0.0.1" };
  const seen: { port: PublishedPort; by: string }[] = [];
  for (let n = 0; n < 50; n++) {
    const [chosen] = await choosePorts([open], { taken: seen });
    assert.ok(chosen.host < FIRST || chosen.host > LAST, String(chosen.host));
    assert.ok(!seen.some(({ port }) => collide(port, chosen)));
    seen.push({ port: chosen, by: "other" });
  }
});

Deno.test("an open UDP port that was chosen is free to be published; one in use is refused", async () => {
  const open = { container: 53, protocol: "udp" as const, hostIP: "127.0.0.1" };
  const [chosen] = await choosePorts([open]);
  await requireFree([chosen], []);
  const socket = createSocket("udp4");
  await new Promise<void>((bound) => socket.bind({ port: 0, address: "127.0.0.1" }, () => bound()));
  const used = port(socket.address().port, { protocol: "udp" });
  await assert.rejects(requireFree([used], []), { code: "port_in_use" });
  await new Promise<void>((closed) => socket.close(() => closed()));
});
