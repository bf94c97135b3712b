/** What the tests of egress share: deployments, ways out of a workload, and a proxy of the caller's. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { get } from "../peers/outside.ts";
import type { RunOutput, Server } from "./harness.ts";

export const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "skopeo", "ip"],
};

/** Writes a spec with the image base:1; its path. */
export async function file(server: Server, spec: Record<string, unknown>): Promise<string> {
  const path = join(server.dataDir, `${crypto.randomUUID()}.json`);
  await Deno.writeTextFile(path, JSON.stringify({ image: `${server.host}/base:1`, ...spec }));
  return path;
}

export async function deploy(
  server: Server,
  spec: Record<string, unknown>,
  ...flags: string[]
): Promise<RunOutput> {
  return await server.svc(["deploy", "-f", await file(server, spec), ...flags]);
}

export async function deployed(...args: Parameters<typeof deploy>): Promise<void> {
  const { code, stderr } = await deploy(...args);
  assert.equal(code, 0, stderr);
}

export async function exec(server: Server, name: string, script: string): Promise<RunOutput> {
  return await server.svc(["exec", name, "--", "sh", "-c", script]);
}

/** Every way out that a workload could try by itself; each prints something only where it was answered. */
export const waysOut = (
  base: string,
  other: { address: string; port: number },
  gateway: string,
) => ({
  "tcp to another machine": get(other.address, other.port),
  "icmp to another machine, by a raw socket": `busybox ping -c 1 -W 2 ${other.address}`,
  "icmp to the host": `busybox ping -c 1 -W 2 ${gateway}`,
  "dns of the host": `busybox timeout 4 busybox nslookup example.com ${gateway} | grep -i 'name:'`,
  "the host's own services": get(gateway, 22),
  "a workload of another network": get(`${base}.0.2`, 8080),
  // The group of all nodes on the link: only this one is to answer.
  "ipv6": `own=$(ip -6 -o addr show eth0 | grep -o 'fe80[0-9a-f:]*'); ` +
    `busybox ping6 -c 2 -W 1 ff02::1%eth0 | grep 'from fe80' | grep -v "$own"`,
});

/** A proxy of the caller's machine, which reaches `port` by any name. */
export function callersProxy(port: number) {
  const asked: string[] = [];
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serve = async (client: Deno.TcpConn) => {
    using _client = client;
    const head = new Uint8Array(4096);
    const text = new TextDecoder().decode(head.subarray(0, await client.read(head) ?? 0));
    asked.push(text.split("\r\n")[0]);
    using host = await Deno.connect({ hostname: "127.0.0.1", port });
    await client.write(new TextEncoder().encode("HTTP/1.1 200 OK\r\n\r\n"));
    await Promise.all([
      client.readable.pipeTo(host.writable, { preventClose: true }),
      host.readable.pipeTo(client.writable),
    ]).catch(() => {/* one of them has hung up */});
  };
  (async () => {
    for await (const client of listener) serve(client).catch(() => {});
  })();
  return {
    asked,
    url: `http://127.0.0.1:${listener.addr.port}`,
    [Symbol.dispose]: () => listener.close(),
  };
}
