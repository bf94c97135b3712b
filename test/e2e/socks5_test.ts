/** `svc socks5` with real curl: workloads by suffix, by rule and by bare name, and this machine's network. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually } from "../waits.ts";
import { baseImage, e2eTest, EXECUTABLE, type Server, startServer } from "./harness.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "skopeo", "curl"],
};

interface Proxy extends AsyncDisposable {
  address: string;
  /** curl through it; what it printed. Throws with its exit code. */
  curl(...args: string[]): Promise<string>;
  /** Waits until standard error has it. */
  told(pattern: RegExp): Promise<void>;
  /** Ctrl-C; the exit code. */
  interrupt(): Promise<number>;
}

class CurlFailed extends Error {
  constructor(readonly code: number, words: string) {
    super(`curl ended with ${code}: ${words}`);
  }
}

const decoder = new TextDecoder();

async function curl(proxy: string[], args: string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command("curl", {
    args: ["-sS", "--max-time", "60", "--noproxy", "", ...proxy, ...args],
  }).output();
  if (code !== 0) throw new CurlFailed(code, decoder.decode(stderr));
  return decoder.decode(stdout);
}

/** `files`: how many it may have open. */
async function startProxy(server: Server, args: string[], files?: number): Promise<Proxy> {
  const command = [EXECUTABLE, "socks5", "--listen", "127.0.0.1:0", ...args];
  const child = new Deno.Command("sh", {
    args: ["-c", `${files ? `ulimit -n ${files} && ` : ""}exec "$@"`, "sh", ...command],
    clearEnv: true,
    env: {
      PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin",
      HOME: Deno.env.get("HOME") ?? "/root",
      SVC_SERVER: server.url,
      SVC_CONFIG: "/nonexistent/svc-test-config.yaml",
    },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let ended = false;
  const status = child.status.finally(() => ended = true);
  let said = "";
  const reading = (async () => {
    for await (const bytes of child.stderr) said += decoder.decode(bytes, { stream: true });
  })();
  let shown = "";
  const reader = child.stdout.getReader();
  while (!shown.includes("\n")) {
    const { value } = await reader.read();
    if (!value) {
      await reading;
      throw new Error(`svc socks5 ended: ${said}`);
    }
    shown += decoder.decode(value, { stream: true });
  }
  const [, address] = /^socks5 proxy on (127\.0\.0\.1:\d+)\n$/.exec(shown) ?? assert.fail(shown);
  const interrupt = async () => {
    if (!ended) child.kill("SIGINT");
    const { code } = await status;
    await reading;
    await reader.cancel();
    return code;
  };
  return {
    address,
    curl: (...args) => curl(["--socks5-hostname", address], args),
    told: async (pattern) => void await eventually(`${pattern} is told`, () => pattern.test(said)),
    interrupt,
    async [Symbol.asyncDispose]() {
      await interrupt();
    },
  };
}

/** Until the workload's own server answers. */
const answering = (proxy: Proxy, url: string) => eventually(url, () => proxy.curl(url));

e2eTest(
  "svc socks5: workloads by suffix, rule and bare name, all else straight, with curl",
  NEEDS,
  async (t) => {
    await using server = await startServer();
    const big = new Uint8Array(8 << 20).map((_, i) => i * 7 + (i >> 12));
    const image = await baseImage(server, "web:1", { layers: [{ "srv/big": big }] });
    const deployed = await server.svc(["deploy", image.name, "--name", "web"]);
    assert.equal(deployed.code, 0, deployed.stderr);
    await using proxy = await startProxy(server, []);
    const hello = "hello from busybox\n";
    await using own = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      () => new Response("this machine\n"),
    );
    const straight = `http://127.0.0.1:${own.addr.port}/`;

    await t.step("by suffix, in any case", async () => {
      assert.equal(await answering(proxy, "http://web.svc.internal:8080/"), hello);
      assert.equal(await proxy.curl("http://WEB.Svc.Internal:8080/"), hello);
    });
    await t.step("by its bare name", async () => {
      assert.equal(await proxy.curl("http://web:8080/"), hello);
    });
    await t.step("straight to this machine, by address and by name", async () => {
      assert.equal(await proxy.curl(straight), "this machine\n");
      assert.equal(
        await proxy.curl(straight.replace("127.0.0.1", "localhost")),
        "this machine\n",
      );
    });
    await t.step("many megabytes, several at once", async () => {
      const folder = await Deno.makeTempDir();
      try {
        await Promise.all([1, 2, 3].map(async (n) => {
          const file = join(folder, String(n));
          await proxy.curl("-o", file, "http://web.svc.internal:8080/big");
          assert.deepEqual(await Deno.readFile(file), big);
        }));
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    });
    await t.step("by rule, which replaces the suffix", async () => {
      const rule = "^([a-z]+)\\.intranet\\.test:80$=\\1:8080";
      await using ruled = await startProxy(server, ["--resolve", rule, "--no-bare-service-names"]);
      assert.equal(await ruled.curl("http://web.intranet.test/"), hello);
      assert.equal(await ruled.curl(straight), "this machine\n");
    });
    await t.step("what cannot be reached is refused and told", async () => {
      const proxyFailed = (error: unknown) => error instanceof CurlFailed && error.code === 97;
      await assert.rejects(proxy.curl("http://none.svc.internal/"), proxyFailed);
      await proxy.told(/^svc: .*none/m);
      await assert.rejects(proxy.curl("http://web.svc.internal:9/"), proxyFailed);
      await proxy.told(/^svc: .*port 9 /m);
    });
    await t.step("SOCKS4 and HTTP are told what the port is", async () => {
      await assert.rejects(curl(["--socks4", proxy.address], ["http://127.0.0.1/"]), CurlFailed);
      await proxy.told(/^svc: a client of the SOCKS5 proxy was refused: it speaks SOCKS4/m);
      assert.match(
        await curl(["--proxy", `http://${proxy.address}`], ["http://web.svc.internal:8080/"]),
        /speaks SOCKS5, not HTTP/,
      );
      await proxy.told(/^svc: a client of the SOCKS5 proxy was refused: it speaks HTTP/m);
      // A client that could log in, but need not.
      const url = `socks5h://name:password@${proxy.address}`;
      assert.equal(await curl(["--proxy", url], ["http://web:8080/"]), hello);
    });
    await t.step("more connections than it may open files", async () => {
      await using poor = await startProxy(server, [], 512);
      const [hostname, port] = poor.address.split(":");
      const conns: (Deno.Conn | undefined)[] = [];
      for (let n = 0; n < 400; n++) {
        // One that is refused may be reset before it is told that it is connected.
        const conn = Deno.connect({ hostname, port: Number(port) }).catch(() => undefined);
        conns.push(await conn);
      }
      await poor.told(/^svc: the SOCKS5 proxy has 128 connections: more are refused/m);
      for (const conn of conns) conn?.close();
      assert.equal(await answering(poor, "http://web.svc.internal:8080/"), hello);
    });
    await t.step("a server that was started again is found again", async () => {
      await server.restart();
      assert.equal(await answering(proxy, "http://web.svc.internal:8080/"), hello);
    });
    await t.step("an interrupt ends it with 0", async () => {
      assert.equal(await proxy.interrupt(), 0);
      await assert.rejects(proxy.curl(straight), CurlFailed);
    });
  },
);
