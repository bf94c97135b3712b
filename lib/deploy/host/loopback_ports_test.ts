import assert from "node:assert/strict";
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { silent } from "../../base/log.ts";
import type { PortTargets } from "../../runtime/port_rules.ts";
import { eventually } from "../../../test/waits.ts";
import { LoopbackPorts } from "./loopback_ports.ts";

async function bound(type: "udp4" | "udp6", address: string, port = 0): Promise<Socket> {
  const socket = createSocket(type);
  socket.bind({ address, port, exclusive: true });
  await once(socket, "listening");
  return socket;
}

const ended = (socket: Socket) => new Promise<void>((closed) => socket.close(() => closed()));

Deno.test({
  name:
    "ports at [::1]: datagrams go to a target and back, follow the targets, and end with the port",
  ignore: !Deno.networkInterfaces().some(({ address }) => address === "::1"),
  fn: async () => {
    const free = await bound("udp6", "::1");
    const hostPort = free.address().port;
    await ended(free);
    const ports = new LoopbackPorts(silent);
    const [one, two] = await Promise.all([bound("udp4", "127.0.0.1"), bound("udp4", "127.0.0.1")]);
    const client = await bound("udp6", "::1");
    let last = "";
    client.on("message", (bytes) => last = bytes.toString());
    const answers = (text: string) =>
      eventually(text, () => {
        client.send("?", hostPort, "::1");
        return Promise.resolve(last === text);
      });
    const to = (socket: Socket): PortTargets => ({
      ...{ hostIP: "::", hostPort, protocol: "udp" },
      targets: [{ ip: "127.0.0.1", port: socket.address().port }],
    });
    const port = { hostIP: "::1", host: hostPort, container: 1, protocol: "udp" } as const;
    try {
      for (const [name, socket] of Object.entries({ one, two })) {
        socket.on("message", (_, { port, address }) => socket.send(name, port, address));
      }
      ports.set([to(one)]);
      assert.ok(ports.holds(port));
      assert.ok(!ports.holds({ ...port, protocol: "tcp" }), "another protocol's");
      assert.ok(!ports.holds({ ...port, hostIP: "127.0.0.1" }), "another address's");
      await answers("one");
      ports.set([to(two)]);
      await answers("two");
      ports.set([]);
      assert.ok(!ports.holds(port));
      // Nobody has it any more.
      await eventually("it is free", async () => {
        const again = await bound("udp6", "::1", hostPort).catch(() => undefined);
        if (again) await ended(again);
        return again !== undefined;
      });
    } finally {
      ports.stop();
      await Promise.all([one, two, client].map(ended));
    }
  },
});
