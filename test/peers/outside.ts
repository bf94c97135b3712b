/** Who is asked over the network: another machine, services of the host; and how a container asks. */
import { freePort } from "../fixtures/free_port.ts";
import { runTool } from "../e2e/harness.ts";

/**
 * A command that says what is answered and fails where nothing is: static busybox's own wget needs
 * libraries to look an address up.
 */
export const get = (host: string, port: number, path = "/") => ask(`GET ${path}`, host, port);

export const ask = (line: string, host: string, port: number, body = "") =>
  `{ { printf "${line} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n` +
  `Content-Length: ${body.length}\\r\\n\\r\\n"; printf %s '${body}'; sleep 1; } | ` +
  `nc -w 3 ${host} ${port} | grep . ; }`;

/** Port of the proxy beside a workload whose egress is relayed. */
export const EGRESS_PROXY = 3128;

/** A request through the workload's proxy, as a program sends it. */
export const proxied = (host: string, port: number) =>
  `{ printf 'GET http://${host}:${port}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'; sleep 1; } | ` +
  `nc -w 5 127.0.0.1 ${EGRESS_PROXY}`;

/** What answers on the host: on its loopback only, or on every address. */
export function answering(hostname: string) {
  const paths: string[] = [];
  const server = Deno.serve({ hostname, port: 0, onListen: () => {} }, (request) => {
    paths.push(new URL(request.url).pathname);
    return new Response("from the host\n");
  });
  return { paths, port: server.addr.port, [Symbol.asyncDispose]: () => server.shutdown() };
}

/** Another machine that has no way back to the networks: it answers an address of the host's only. */
export async function outside(): Promise<{ address: string; port: number } & AsyncDisposable> {
  const name = `o${crypto.randomUUID().slice(0, 6)}`;
  const third = 1 + Math.floor(Math.random() * 250);
  const [host, address] = [1, 2].map((last) => `198.18.${third}.${last}`);
  const ip = (...args: string[]) => runTool("ip", args);
  await ip("netns", "add", name);
  await ip("link", "add", `${name}h`, "type", "veth", "peer", "name", "eth0", "netns", name);
  await ip("addr", "add", `${host}/24`, "dev", `${name}h`);
  await ip("link", "set", `${name}h`, "up");
  await ip("-n", name, "addr", "add", `${address}/24`, "dev", "eth0");
  await ip("-n", name, "link", "set", "eth0", "up");
  const port = freePort();
  const folder = await Deno.makeTempDir();
  await Deno.writeTextFile(`${folder}/index.html`, "from outside\n");
  const args = ["netns", "exec", name, "busybox", "httpd", "-f", "-p", String(port), "-h", folder];
  const child = new Deno.Command("ip", { args }).spawn();
  return {
    address,
    port,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await child.status;
      await ip("netns", "del", name);
      await Deno.remove(folder, { recursive: true });
    },
  };
}
