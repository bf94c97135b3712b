/** `svc tunnel` through OpenSSH's server: visitors, dropped connections, and every way in which a tunnel ends. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { TunnelStatus } from "../../lib/api/tunnel.ts";
import { Leaks } from "../fixtures/leaks.ts";
import { makeKey, type Sshd, startSshd } from "../peers/sshd.ts";
import { eventually } from "../waits.ts";
import { e2eTest, EXECUTABLE, freePort, runTool, type Server, startServer } from "./harness.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "sshd", "ssh-keygen", "curl"],
};

const DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
COPY index.html /srv/index.html
STOPSIGNAL SIGKILL
CMD ["httpd", "-f", "-p", "8080", "-h", "/srv"]
`;

/** Without the person's own settings of svc. */
const OWN_ENV = Object.fromEntries(
  Object.entries(Deno.env.toObject()).filter(([name]) => !name.startsWith("SVC_")),
);

interface Scene extends AsyncDisposable {
  sshd: Sshd;
  server: Server;
  folder: string;
  leaks: Leaks;
}

/** A server whose tunnels go through sshd, and a workload that nobody else reaches. */
async function scene(env: (sshd: Sshd) => Record<string, string>): Promise<Scene> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-tunnel-" });
  const parts = new AsyncDisposableStack();
  parts.defer(() => Deno.remove(folder, { recursive: true }));
  try {
    const sshd = parts.use(await startSshd());
    const known = join(folder, "known_hosts");
    await Deno.writeTextFile(known, await sshd.knownHosts());
    const server = parts.use(
      await startServer({
        env: {
          SVC_LOG_LEVEL: "debug",
          SVC_TUNNEL_BACKEND: "ssh",
          SVC_TUNNEL_SSH_ADDR: `127.0.0.1:${sshd.port}`,
          SVC_TUNNEL_SSH_USER: "root",
          SVC_TUNNEL_SSH_KNOWN_HOSTS: known,
          ...env(sshd),
        },
      }),
    );
    const context = join(folder, "context");
    await Deno.mkdir(context);
    await Deno.writeTextFile(join(context, "Dockerfile"), DOCKERFILE);
    await Deno.copyFile("/bin/busybox", join(context, "busybox"));
    await Deno.writeTextFile(join(context, "index.html"), "hello from the workload\n");
    const spec = {
      ...{ name: "web", image: "web:v1" },
      ingress: { hosts: ["web.example"], port: 8080 },
    };
    for (
      const [args, stdin] of [
        [["build", "-t", "web:v1", context]],
        [["deploy", "-f", "-"], JSON.stringify(spec)],
      ] as [string[], string?][]
    ) {
      const { code, stderr } = await server.svc(args, { stdin });
      assert.equal(code, 0, stderr);
    }
    const leaks = new Leaks();
    leaks.secret("private key", (await Deno.readTextFile(sshd.user)).split("\n").at(-3)!);
    return {
      ...{ sshd, server, folder, leaks },
      [Symbol.asyncDispose]: () => parts.disposeAsync(),
    };
  } catch (error) {
    await parts.disposeAsync();
    throw error;
  }
}

/** A `svc tunnel` or `svc ingress-tunnel` that stays. */
class Held {
  readonly #child: Deno.ChildProcess;
  readonly #ended: Promise<Deno.CommandStatus>;
  stdout = "";
  stderr = "";

  constructor({ server, leaks }: Scene, args: string[], env: Record<string, string> = {}) {
    this.#child = new Deno.Command(EXECUTABLE, {
      args,
      clearEnv: true,
      env: {
        ...OWN_ENV,
        SVC_CONFIG: "/nonexistent/svc-test-config.yaml",
        SVC_SERVER: server.url,
        ...env,
      },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const read = async (name: "stdout" | "stderr") => {
      const decoder = new TextDecoder();
      for await (const chunk of this.#child[name]) {
        const text = decoder.decode(chunk, { stream: true });
        leaks.place(`${name} of svc tunnel`, text);
        this[name] += text;
      }
    };
    this.#ended = Promise.all([this.#child.status, read("stdout"), read("stderr")])
      .then(([status]) => status);
  }

  /** What it has shown, once that is so. */
  async says(pattern: RegExp): Promise<void> {
    await eventually(
      `${pattern} of svc tunnel, which says ${this.stdout}${this.stderr}`,
      () => pattern.test(this.stdout + this.stderr),
    );
  }

  async url(): Promise<string> {
    await this.says(/^\w+:\/\/.*\n/m);
    return this.stdout.split("\n")[0];
  }

  async end(signal?: Deno.Signal): Promise<number> {
    if (signal) this.#child.kill(signal);
    return (await this.#ended).code;
  }
}

/** Status and body; by curl, which sends any `Host`. */
async function page(url: string, host?: string): Promise<string> {
  const { stdout } = await runTool("curl", [
    ...[
      "--silent",
      "--show-error",
      "--max-time",
      "60",
      "--write-out",
      "\\n%{http_code}",
      "--noproxy",
      "*",
    ],
    ...host === undefined ? [] : ["--header", `Host: ${host}`],
    url,
  ]);
  const at = stdout.lastIndexOf("\n");
  return `${stdout.slice(at + 1)} ${stdout.slice(0, at).trim()}`;
}

const HELLO = "200 hello from the workload";

const tunnelsOf = async ({ server }: Scene): Promise<TunnelStatus[]> =>
  await (await fetch(`${server.url}/.svc/v1/tunnels`)).json();

const silence = (url: string) =>
  eventually(`nobody at ${url}`, () => page(url).then(() => false, () => true));

const none = (at: Scene) => eventually("no tunnel", async () => (await tunnelsOf(at)).length === 0);

e2eTest(
  "svc tunnel: a workload is reached at the SSH server, and again after drops",
  NEEDS,
  async (t) => {
    await using at = await scene(() => ({ SVC_TUNNEL_SSH_BIND: "localhost:0" }));
    const { sshd, server, leaks } = at;
    const key = ["--authtoken-file", sshd.user];

    await t.step("visitors, a connection that drops, an interrupt", async () => {
      const held = new Held(at, ["tunnel", "web:8080", ...key]);
      const url = await held.url();
      assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
      await eventually("an answer", async () => await page(url) === HELLO);
      assert.deepEqual(await Promise.all([1, 2, 3, 4].map(() => page(url))), Array(4).fill(HELLO));
      const [{ deployment, port, backend, held: isHeld }] = await tunnelsOf(at);
      assert.deepEqual([deployment, port, backend, isHeld], ["web", 8080, "ssh", true]);
      await sshd.drop();
      await held.says(/the tunnel is down, and tried again: .*\n.*the tunnel is up again/);
      assert.equal(await page(url), HELLO);
      assert.equal(held.stdout, `${url}\n`);
      assert.equal(await held.end("SIGINT"), 0);
      await none(at);
      await silence(url);
    });

    await t.step("a client that is killed takes its tunnel with it", async () => {
      const held = new Held(at, ["tunnel", "web:8080"], {
        SVC_TUNNEL_AUTHTOKEN: await Deno.readTextFile(sshd.user),
      });
      const url = await held.url();
      assert.equal(await page(url), HELLO);
      await held.end("SIGKILL");
      await none(at);
    });

    await t.step("a deployment that is stopped is a 502 until it is back", async () => {
      const held = new Held(at, ["tunnel", "web:8080", ...key]);
      const url = await held.url();
      assert.equal((await server.svc(["stop", "web"])).code, 0);
      assert.match(await page(url), /^502 Bad gateway/);
      assert.equal((await server.svc(["start", "web"])).code, 0);
      await eventually("an answer", async () => await page(url) === HELLO);
      assert.equal(await held.end("SIGTERM"), 0);
      await none(at);
    });

    await t.step("the ingress, by its public URL and at a local port", async () => {
      const alias = new Held(at, ["ingress-tunnel", ...key]);
      assert.equal(await page(await alias.url()), HELLO);
      const [{ ingress }] = await tunnelsOf(at);
      assert.deepEqual(ingress, { hostMode: "alias", host: "web.example" });
      assert.equal(await alias.end("SIGINT"), 0);
      const passing = new Held(at, ["ingress-tunnel", "--host-mode", "passthrough", ...key]);
      const url = new URL(await passing.url());
      assert.equal(url.hostname, "web.example");
      // OpenSSH listens on its loopback, whatever name it is asked for.
      url.hostname = "127.0.0.1";
      assert.equal(await page(url.href, "web.example"), HELLO);
      assert.match(await page(url.href), /^404 /);
      assert.equal(await passing.end("SIGINT"), 0);
      const local = new Held(at, ["ingress-tunnel", "--local", "0"]);
      assert.equal(await page(await local.url()), HELLO);
      assert.equal(await local.end("SIGINT"), 0);
      await none(at);
    });

    await t.step("keys that are not accepted, and none", async () => {
      const stranger = join(at.folder, "stranger");
      await makeKey(stranger);
      const refused = new Held(at, ["tunnel", "web:8080", "--authtoken-file", stranger]);
      assert.equal(await refused.end(), 1);
      await refused.says(
        /Cannot open a tunnel over root@127\.0\.0\.1:\d+: it does not accept the key/,
      );
      const keyless = new Held(at, ["tunnel", "web:8080"]);
      assert.equal(await keyless.end(), 1);
      await keyless.says(/it asks for a key, and none was given/);
      const other = new Held(at, ["tunnel", "web:8080", "--backend", "ngrok", ...key]);
      assert.equal(await other.end(), 2);
      await other.says(/with ngrok: it is not in this build yet\n.*--backend ssh/);
    });

    await t.step("an SSH server with another host key is not the one that was meant", async () => {
      const held = new Held(at, ["tunnel", "web:8080", ...key]);
      await held.url();
      await sshd.rekey();
      await sshd.restart();
      assert.equal(await held.end(), 1);
      await held.says(
        /Cannot trust .*: its host key has changed from the one in .*known_hosts, line 1/,
      );
      const next = new Held(at, ["tunnel", "web:8080", ...key]);
      assert.equal(await next.end(), 1);
      await next.says(/its host key has changed/);
    });

    await t.step("the record says who and what, and the key stands nowhere", async () => {
      await eventually("all is on record", async () => {
        const { stdout } = await server.svc(["activity", "--output", "json"]);
        leaks.place("activity", stdout);
        return /"name":"web:8080 at http:\/\/127\.0\.0\.1:\d+","result":"ok"/.test(stdout);
      });
      // Its network namespaces are files that nobody can read.
      await server.svc(["rm", "web"]);
      await server.stop();
      leaks.place("the log", server.log());
      assert.match(server.log(), /a tunnel is open/);
      await leaks.folder("the data", server.dataDir);
      leaks.check();
    });
  },
);

e2eTest(
  "svc tunnel: a fixed port, URLs of the server's own, and the end of the server",
  NEEDS,
  async (t) => {
    const bind = freePort();
    await using at = await scene((sshd) => ({
      SVC_TUNNEL_SSH_BIND: `127.0.0.1:${bind}`,
      SVC_TUNNEL_SSH_URL_FROM_SESSION: "on",
      SVC_TUNNEL_SSH_HOSTKEY: Deno.readTextFileSync(`${sshd.host}.pub`).trim(),
      SVC_TUNNEL_AUTHTOKEN: Deno.readTextFileSync(sshd.user),
    }));
    const { sshd, server, leaks } = at;
    // The session of this key prints what a relay would.
    const publicKey = await Deno.readTextFile(`${sshd.user}.pub`);
    await Deno.writeTextFile(
      join(sshd.folder, "authorized_keys"),
      `command="echo your tunnel: https://web.relay.example.; cat" ${publicKey}`,
    );

    await t.step("the server's own key, and the URL that the session prints", async () => {
      const held = new Held(at, ["tunnel", "web:8080"]);
      assert.equal(await held.url(), "https://web.relay.example");
      assert.equal(await page(`http://127.0.0.1:${bind}`), HELLO);
      const second = new Held(at, ["tunnel", "web:8080"]);
      assert.equal(await second.end(), 1);
      await second.says(new RegExp(`it refuses to listen on 127\\.0\\.0\\.1:${bind}`));
      assert.equal(await held.end("SIGINT"), 0);
      await none(at);
      // The SSH server has the port for a moment more.
      await silence(`http://127.0.0.1:${bind}`);
    });

    await t.step("one that is not held stays until it is deleted", async () => {
      const body = JSON.stringify({ deployment: "web", port: 8080, protocol: "tcp" });
      const answer = await fetch(`${server.url}/.svc/v1/tunnels`, { method: "POST", body });
      const text = leaks.place("the answer", await answer.text());
      assert.equal(answer.status, 201, text);
      const { id, url } = JSON.parse(text) as TunnelStatus;
      assert.equal(url, "https://web.relay.example");
      assert.equal(await page(`http://127.0.0.1:${bind}`), HELLO);
      const gone = await fetch(`${server.url}/.svc/v1/tunnels/${id}`, { method: "DELETE" });
      assert.equal(gone.status, 204);
      await silence(`http://127.0.0.1:${bind}`);
    });

    await t.step("the server's end is told", async () => {
      const held = new Held(at, ["tunnel", "web:8080"]);
      await held.url();
      // Its network namespaces are files that nobody can read.
      await server.svc(["rm", "web"]);
      await server.stop();
      assert.equal(await held.end(), 1);
      await held.says(/the server is shutting down/);
      await silence(`http://127.0.0.1:${bind}`);
      leaks.place("the log", server.log());
      await leaks.folder("the data", server.dataDir);
      leaks.check();
    });
  },
);
