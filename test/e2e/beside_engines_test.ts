/** Egress and credentials of workloads on Docker, podman and containerd: what the server runs in their network namespaces. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { credentialFolder } from "../../lib/server/credentials/files.ts";
import { busyboxArchive } from "../peers/base_image.ts";
import { startContainerd } from "../peers/containerd.ts";
import { startDockerd } from "../peers/dockerd.ts";
import { EGRESS_PROXY as PROXY, get, outside, proxied } from "../peers/outside.ts";
import { PODMAN_COMMANDS, PODMAN_FILES, startPodman } from "../peers/podman.ts";
import { executableWithin } from "../peers/within.ts";
import { eventually } from "../waits.ts";
import { answer } from "./companions.ts";
import {
  baseImage,
  e2eTest,
  EXECUTABLE,
  type RunOutput,
  runTool,
  type Server,
  startServer,
} from "./harness.ts";
import { Client } from "./session_client.ts";

/** An engine of the test's own, whose network the test is in until it is disposed of. */
interface Engine extends AsyncDisposable {
  /** The engine's own command. */
  command(...args: string[]): Promise<RunOutput>;
  /** Has the engine start the deployment's container anew. */
  restart(deployment: string): Promise<void>;
  /** All that the engine says of its containers and of the image. */
  words(): Promise<string>;
  /** The image's name. */
  image: string;
  /** Interfaces that a workload may have, as a pattern. */
  interfaces: string;
  inside(...command: string[]): string[];
  env: Record<string, string>;
}

/** What Docker's and podman's commands have in common. */
function likeDocker({ command, inside }: Pick<Engine, "command" | "inside">) {
  const lines = async (...args: string[]) => (await command(...args)).stdout.trim().split("\n");
  return {
    ...{ command, inside, image: "base:1", interfaces: "^lo$" },
    // Its process dies. The engine's own `restart` stops the container first: who looks then sees it stopped.
    async restart(deployment: string) {
      const ids = await lines("ps", "-q", "--filter", `name=${deployment}`);
      const pids = await lines("inspect", "-f", "{{.State.Pid}}", ...ids);
      const [program, ...args] = inside("kill", "-9", ...pids);
      await runTool(program, args);
    },
    async words() {
      const asked = [["inspect", ...await lines("ps", "-aq")], ["inspect", "base:1"], ["info"]];
      return (await Promise.all(asked.map((args) => lines(...args)))).flat().join("\n");
    },
  };
}

async function docker(folder: string): Promise<Engine> {
  const daemon = await startDockerd(join(folder, "daemon"), { network: "own" });
  const network = daemon.enter();
  return {
    ...likeDocker({ command: daemon.docker, inside: daemon.inside }),
    env: { SVC_DEPLOY_BACKEND: "dockerhost", DOCKER_HOST: daemon.host },
    async [Symbol.asyncDispose]() {
      network[Symbol.dispose]();
      await daemon[Symbol.asyncDispose]();
    },
  };
}

async function podman(): Promise<Engine> {
  const peer = await startPodman();
  const network = peer.enter();
  return {
    ...likeDocker({ command: peer.podman, inside: peer.inside }),
    env: { SVC_DEPLOY_BACKEND: "podman", SVC_PODMAN_SOCKET: peer.socket },
    async [Symbol.asyncDispose]() {
      network[Symbol.dispose]();
      await peer[Symbol.asyncDispose]();
    },
  };
}

/** In the host's own namespaces. */
async function containerd(folder: string): Promise<Engine> {
  const daemon = await startContainerd(folder);
  const ctr = (...args: string[]) => runTool("ctr", ["-a", daemon.address, "-n", "svc", ...args]);
  const list = async () => (await ctr("containers", "ls", "-q")).stdout.trim().split("\n");
  return {
    ...{ command: ctr, inside: (...command) => command, image: "", interfaces: "^(lo|eth0)$" },
    env: { SVC_DEPLOY_BACKEND: "containerd", CONTAINERD_ADDRESS: daemon.address },
    async restart(deployment) {
      const [id] = (await list()).filter((id) => id.includes(deployment));
      await ctr("tasks", "kill", "-s", "9", id);
    },
    async words() {
      const all = await Promise.all((await list()).map((id) => ctr("containers", "info", id)));
      return all.map(({ stdout }) => stdout).join("\n");
    },
    [Symbol.asyncDispose]: () => daemon[Symbol.asyncDispose](),
  };
}

const exec = (server: Server, name: string, script: string) =>
  server.svc(["exec", name, "--", "sh", "-c", script]);

interface Scene {
  server: Server;
  engine: Engine;
  folder: string;
  /** Another machine, which the server's gateway may dial. */
  other: { address: string; port: number };
}

const SERVES = ["sh", "-c", "echo serving; exec httpd -f -p 8080 -h /srv"];

async function deploy(
  { server, engine: { image } }: Scene,
  spec: Record<string, unknown>,
): Promise<RunOutput> {
  const whole = { image, command: SERVES, stopSignal: "SIGKILL", ...spec };
  return await server.svc(["deploy", "-f", "-"], { stdin: JSON.stringify(whole) });
}

/** What a workload could try by itself; each prints something only where it was answered. */
const waysOut = ({ other, server, engine: { interfaces } }: Scene) => ({
  "tcp to another machine": get(other.address, other.port),
  "icmp by a raw socket": `busybox ping -c 1 -W 2 ${other.address}`,
  "another port": get(other.address, 53),
  "dns": `busybox timeout 2 busybox nslookup example.com ${other.address} | grep -i 'name:'`,
  ...Object.fromEntries(
    ["172.17.0.1", "10.88.0.1", "198.18.0.1"].map((host) => [
      `the server at ${host}`,
      get(host, server.port),
    ]),
  ),
  // The group of all nodes on the link: only this one is to answer.
  "ipv6 to the link": "own=$(ip -6 -o addr show eth0 | grep -o 'fe80[0-9a-f:]*'); " +
    `busybox ping6 -c 2 -W 1 ff02::1%eth0 | grep 'from fe80' | grep -v "$own"`,
  "a second interface": `ls /sys/class/net | grep -v -E '${interfaces}'`,
});

/** Mode transparent: what a workload reaches without knowing of a proxy, and that nothing else leads out. */
async function transparent(t: Deno.TestContext, scene: Scene): Promise<void> {
  const { server, other } = scene;
  const rules = [{ pattern: `${other.address}:${other.port}`, route: "gateway" }];
  await t.step("transparent: every connection is led to the relay", async () => {
    const egress = { mode: "transparent", rules, default: "deny" };
    const { code, stderr } = await deploy(scene, { name: "clear", egress });
    assert.equal(code, 0, stderr);
    const { stdout } = await exec(server, "clear", get(other.address, other.port));
    assert.match(stdout, /from outside/);
    const { "tcp to another machine": _led, dns: _asked, ...ways } = waysOut(scene);
    const udp = `echo x | nc -u -w 2 ${other.address} ${other.port} | grep .`;
    const tried = Object.entries({ ...ways, udp });
    const answers = await Promise.all(tried.map(([, script]) => exec(server, "clear", script)));
    assert.deepEqual(tried.filter((_, at) => answers[at].code === 0).map(([name]) => name), []);
  });
  await t.step("a workload without egress has the ways out: the trial is one", async () => {
    assert.equal((await deploy(scene, { name: "free" })).code, 0);
    const { stdout } = await exec(server, "free", get(other.address, other.port));
    assert.match(stdout, /from outside/);
    assert.equal((await exec(server, "free", "ls /sys/class/net | grep -v '^lo$'")).code, 0);
  });
}

async function walled(t: Deno.TestContext, scene: Scene): Promise<void> {
  const { server, engine, other } = scene;
  const rule = { pattern: `${other.address}:${other.port}`, route: "gateway" };
  const egress = { mode: "proxy", rules: [rule], default: "deny" };
  const viaProxy = () => exec(server, "walled", proxied(other.address, other.port));

  await t.step("straight out is refused by name", async () => {
    const straight = await deploy(scene, { name: "no", egress: { mode: "proxy" } });
    assert.equal(straight.code, 1);
    assert.match(straight.stderr, /egress route cluster: the \w+ backend has no way straight out/);
  });
  await t.step("the proxy is the only way out", async () => {
    const { code, stderr } = await deploy(scene, {
      ...{ name: "walled", egress, restart: "always" },
      ports: [{ container: 8080, hostIP: "127.0.0.1" }],
    });
    assert.equal(code, 0, stderr);
    assert.match(stderr, /ports: not published with egress mode proxy/);
    assert.match((await viaProxy()).stdout, /from outside/);
    const denied = await exec(server, "walled", proxied("127.0.0.1", server.port));
    assert.match(denied.stdout, /^HTTP\/1\.1 403 [\s\S]*the egress rules deny it/);
    const ways = Object.entries(waysOut(scene));
    const answers = await Promise.all(ways.map(([, script]) => exec(server, "walled", script)));
    const open = ways.flatMap(([name], at) =>
      answers[at].code === 0 ? `${name}: ${answers[at].stdout}` : []
    );
    assert.deepEqual(open, []);
    assert.match(
      (await exec(server, "walled", "env")).stdout,
      new RegExp(`^https_proxy=http://127\\.0\\.0\\.1:${PROXY}$`, "m"),
    );
  });
  await t.step("svc port-forward leads to it", async () => {
    assert.equal(await answer(server, "walled"), "hello from busybox");
  });
  await t.step("it follows a restart by the engine, and of the server", async () => {
    await engine.restart("walled");
    const answers = async () => /from outside/.test((await viaProxy()).stdout);
    await eventually("the proxy after the engine's restart", answers);
    await server.restart();
    await eventually("the proxy after the server's restart", answers);
    assert.equal((await exec(server, "walled", get(other.address, other.port))).code, 1);
  });
}

/** A server that sees the engine's socket, and not its processes. */
async function elsewhere(t: Deno.TestContext, { engine: { env } }: Scene): Promise<void> {
  await t.step("a server that does not see the engine's processes refuses", async () => {
    await using server = await startServer({ env });
    const spec = { name: "far", image: "base:1", command: SERVES, stopSignal: "SIGKILL" };
    const deploy = async (more: Record<string, unknown>) =>
      await server.svc(["deploy", "-f", "-"], { stdin: JSON.stringify({ ...spec, ...more }) });
    const { code, stderr } = await deploy({ egress: { mode: "proxy", default: "deny" } });
    assert.equal(code, 1);
    assert.match(stderr, /beside far-0: its process is none that this server sees/);
    assert.notEqual((await server.svc(["status", "far"])).code, 0, "nothing of it is left");
    assert.equal((await deploy({ egress: { mode: "env" } })).code, 0);
  });
}

/** No value of them may be anywhere but in the workload. */
const MARK = `mark-${crypto.randomUUID()}`;

const CREDENTIALS = {
  sources: [
    {
      ...{ name: "fixed", backend: "static", config: { password: `${MARK}-static` } },
      deliver: [{ kind: "file", path: "/run/c/raw", format: "raw", envVar: "PASSWORD_FILE" }],
    },
    {
      ...{ name: "aws", backend: "static" },
      config: { accessKeyId: "AK", secretAccessKey: `${MARK}-aws` },
      deliver: [{ kind: "endpoint", provider: "aws-imds", wellKnown: "169.254.169.254" }],
    },
  ],
};

/** Files of the server's data that have the mark in them. */
async function marked(folder: string): Promise<string> {
  const args = ["-rlaF", "--devices=skip", "--", MARK, folder];
  return new TextDecoder().decode((await new Deno.Command("grep", { args }).output()).stdout);
}

async function credentials(t: Deno.TestContext, scene: Scene): Promise<void> {
  const { server, engine, folder } = scene;
  const spec = join(folder, "web.json");
  const command = ["sh", "-c", "test -s /run/c/raw && echo serving; exec sleep 1000"];
  await Deno.writeTextFile(
    spec,
    JSON.stringify({
      ...{ name: "web", image: engine.image, command, stopSignal: "SIGKILL" },
      credentials: CREDENTIALS,
    }),
  );
  await using client = new Client(server, ["-f", spec], {}, folder);
  await client.wrote(/^serving$/m);
  const keys = "wget -qO- $AWS_CONTAINER_CREDENTIALS_FULL_URI";

  await t.step("a file, and endpoints at the loopback and the well-known address", async () => {
    const file = await exec(server, "web", "cat $PASSWORD_FILE; echo x > $PASSWORD_FILE");
    assert.equal(file.stdout, `${MARK}-static`);
    assert.match(file.stderr, /Read-only/);
    const { stdout, stderr } = await exec(server, "web", keys);
    assert.equal(JSON.parse(stdout || stderr).SecretAccessKey, `${MARK}-aws`);
    const metadata = await exec(server, "web", "wget -qO- http://169.254.169.254/latest/ 2>&1");
    assert.match(metadata.stdout, /401|404/, "it answers, and asks for a token");
  });
  await t.step("another workload gets none of them", async () => {
    const { instances } = await (await fetch(`${server.url}/.svc/v1/deployments/web`)).json();
    const hosts = ["127.0.0.1", "169.254.169.254", "web", instances[0].ip];
    for (const host of hosts) {
      const url = `http://${host}:4170/credentials/aws`;
      const { code, stdout } = await exec(server, "free", `timeout 5 wget -qO- ${url}`);
      assert.notEqual(code, 0, `${host}: ${stdout}`);
    }
    assert.notEqual((await exec(server, "free", "cat /run/c/raw")).code, 0);
  });
  await t.step("the endpoint follows a restart by the engine", async () => {
    await engine.restart("web");
    await eventually(
      "the keys",
      async () => (await exec(server, "web", keys)).stdout.includes(MARK),
    );
  });
  await t.step("nothing of them in the engine's words, records, logs and answers", async () => {
    const words = await engine.words();
    assert.ok(words.includes("/run/c/raw") && !words.includes(MARK), "the engine's");
    assert.equal(await marked(server.dataDir), "");
    assert.ok(!server.log().includes(MARK), "the log");
    for (const path of ["deployments", "deployments/web", "deployments/web/spec", "activity"]) {
      const text = await (await fetch(`${server.url}/.svc/v1/${path}`)).text();
      assert.ok(!text.includes(MARK), path);
    }
    assert.ok(!client.all.includes(MARK), "the client's own output");
  });
  await t.step("with the session they end", async () => {
    client.kill("SIGINT");
    await client.ended;
    await eventually("its removal", async () => (await server.svc(["status", "web"])).code === 1);
    const folder = credentialFolder({ runDir: "/run/svc", dataDir: server.dataDir });
    const [program, ...args] = engine.inside("cat", "/proc/self/mountinfo");
    await eventually("nothing is mounted", async () => {
      const { stdout } = await runTool(program, args);
      return !stdout.includes(folder);
    });
  });
}

const ENGINES = [
  {
    name: "Docker",
    needs: ["dockerd", "docker", "busybox", "unshare", "nsenter", "ip", "iptables", "runc"],
    files: [],
    open: docker,
  },
  { name: "podman", needs: PODMAN_COMMANDS, files: PODMAN_FILES, open: podman },
];

for (const { name, needs, files, open } of ENGINES) {
  e2eTest(
    `${name}: a relayed egress and credentials, beside workloads`,
    { root: true, commands: needs, files },
    async (t) => {
      const folder = await Deno.makeTempDir({ prefix: "svc-e2e-beside-" });
      try {
        await Deno.chmod(folder, 0o755);
        await using engine = await open(folder);
        const archive = join(folder, "root.tar");
        await busyboxArchive(archive);
        await engine.command("import", archive, "base:1");
        await using other = await outside();
        await using server = await startServer({
          // Where a workload could reach it, if it had a way.
          listen: "0.0.0.0",
          executable: await executableWithin(folder, EXECUTABLE, engine.inside),
          env: {
            ...engine.env,
            SVC_EGRESS_GATEWAY: "1",
            SVC_EGRESS_POLICY: `${other.address}/32`,
          },
        });
        const scene = { server, engine, folder, other };
        await walled(t, scene);
        await transparent(t, scene);
        await credentials(t, scene);
        await elsewhere(t, scene);
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  );
}

e2eTest(
  "containerd: mode transparent and credentials, beside workloads",
  {
    root: true,
    commands: ["containerd", "ctr", "runc", "iptables", "busybox", "skopeo", "ip", "perl", "flock"],
  },
  async (t) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-beside-" });
    try {
      await using engine = await containerd(folder);
      await using other = await outside();
      await using server = await startServer({
        env: {
          ...engine.env,
          SVC_EGRESS_GATEWAY: "1",
          SVC_EGRESS_POLICY: `${other.address}/32`,
        },
      });
      engine.image = (await baseImage(server, "base:1")).name;
      const scene = { server, engine, folder, other };
      await transparent(t, scene);
      await credentials(t, scene);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
