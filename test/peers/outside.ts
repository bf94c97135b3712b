/** Who is asked over the network: another machine, services of the host; and how a container asks. */
import { freePort } from "../fixtures/free_port.ts";
import { freeOuterNet } from "../fixtures/free_subnet.ts";
import { runTool } from "../e2e/harness.ts";
import { eventually } from "../waits.ts";

/**
 * A command that speaks over a connection by a script, whose input and output are the connection, and whose
 * descriptor 3 is what the command prints. It ends when the other side has closed: who asks and hangs up need not be
 * answered.
 */
const spoken = (host: string, port: number, script: string, ...args: string[]) =>
  `nc -w 5 ${host} ${port} -e sh -c '${script}' sh ${args.join(" ")} 3>&1`;

/**
 * A command that says what is answered and fails where nothing is: static busybox's own wget needs
 * libraries to look an address up.
 */
export const get = (host: string, port: number, path = "/") => ask(`GET ${path}`, host, port);

export function ask(line: string, host: string, port: number, body = ""): string {
  const head = `"${line} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n` +
    `Content-Length: ${body.length}\\r\\n\\r\\n"`;
  const script = 'printf "$1"; printf %s "$2"; cat >&3';
  return `{ ${spoken(host, port, script, head, `'${body}'`)} | grep . ; }`;
}

/** Port of the proxy beside a workload whose egress is relayed. */
export const EGRESS_PROXY = 3128;

/** A request through the workload's proxy, as a program sends it. */
export function proxied(host: string, port: number): string {
  const head =
    `"GET http://${host}:${port}/ HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n"`;
  return spoken("127.0.0.1", EGRESS_PROXY, 'printf "$1"; cat >&3', head);
}

/** A connection to there through the workload's proxy, by CONNECT; then a request over it. */
export function tunnelled(host: string, port: number): string {
  const script = 'printf "$1"; ' +
    'while read -r line && printf "%s\\n" "$line" >&3 && [ ${#line} -gt 1 ]; do :; done; ' +
    'printf "$2"; cat >&3';
  const head = `"CONNECT ${host}:${port} HTTP/1.1\\r\\n\\r\\n"`;
  const request = '"GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n"';
  return spoken("127.0.0.1", EGRESS_PROXY, script, head, request);
}

/** The same by SOCKS5: greeting and CONNECT to a name (type 3) in one go, then a request. */
export function socks(host: string, port: number): string {
  const octal = (byte: number) => `\\${byte.toString(8).padStart(3, "0")}`;
  const head = [5, 1, 0, 5, 1, 0, 3, host.length].map(octal).join("");
  const tail = [port >> 8, port & 255].map(octal).join("");
  // Two bytes answer the greeting, ten the CONNECT.
  const script = 'printf "$1"; dd bs=1 count=12 2>/dev/null >&3; printf "$2"; cat >&3';
  const request = '"GET / HTTP/1.0\\r\\n\\r\\n"';
  return spoken("127.0.0.1", EGRESS_PROXY, script, `"${head}${host}${tail}"`, request);
}

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
  const third = freeOuterNet();
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
  await eventually("it answers", async () => {
    (await Deno.connect({ hostname: address, port })).close();
    return true;
  });
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
