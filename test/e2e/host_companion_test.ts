/** SVC_BARE_REMOTE and SVC_CONTAINERD_REMOTE: a companion beside each instance, and what goes through it. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { DeploymentStatus } from "../../lib/api/deployment.ts";
import { startContainerd } from "../peers/containerd.ts";
import { startAgent, startSshd } from "../peers/sshd.ts";
import { ok } from "./commands.ts";
import { eventually } from "../waits.ts";
import { answer, sshFiles, webSpec as spec, withoutAgent } from "./companions.ts";
import {
  baseImage,
  e2eTest,
  freePort,
  freeSubnetBase,
  type Server,
  startServer,
} from "./harness.ts";
import { Client } from "./session_client.ts";

const COMMANDS = ["runc", "iptables", "ip", "busybox", "skopeo", "ssh", "ssh-agent"];

interface Host {
  variable: string;
  env: Record<string, string>;
}

/** Pids of the companions whose server is at this address. */
async function companions(url: string): Promise<number[]> {
  const found: number[] = [];
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const environ = await Deno.readTextFile(`/proc/${name}/environ`).catch(() => "");
    if (environ.includes("SVC_CARETAKER_CONFIG=") && environ.includes(url)) {
      found.push(Number(name));
    }
  }
  return found;
}

function kill(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error; // it has ended
  }
}

const none = (url: string) =>
  eventually("no companion runs", async () => (await companions(url)).length === 0);

async function following(t: Deno.TestContext, server: Server, url: string): Promise<void> {
  await t.step("a port that only the companion reaches", async () => {
    await ok(server, ["deploy", "-f", "-"], { stdin: spec("1") });
    assert.equal(await answer(server), "1");
    const status: DeploymentStatus = JSON.parse(await ok(server, ["ps", "--output", "json"]));
    assert.equal(status.instances[0].companion, "attached");
  });
  await t.step("it goes and comes with its instance, and comes back by itself", async () => {
    await ok(server, ["stop", "web"]);
    await none(url);
    await ok(server, ["start", "web"]);
    assert.equal(await answer(server), "1");
    for (const pid of await companions(url)) kill(pid);
    assert.equal(await answer(server), "1");
    await ok(server, ["restart", "web"]);
    assert.equal(await answer(server), "1");
  });
}

/** `ssh` as a person in the workload types it, to a server of the host with the caller's key. */
async function forwarding(t: Deno.TestContext, server: Server, gateway: string): Promise<void> {
  await t.step("ssh by the caller's agent, for one command", async () => {
    const greeting = "Hi there! You've successfully authenticated.";
    await using sshd = await startSshd({
      listen: "0.0.0.0",
      more: `ForceCommand echo "${greeting}"\n`,
    });
    await using agent = await startAgent();
    await agent.add(sshd.user);
    const env = { SSH_AUTH_SOCK: agent.socket };
    const script = [
      `chmod +x ${[...await sshFiles()].join(" ")}`,
      "echo root:x:0:0::/:/bin/sh > /etc/passwd",
      `ssh -T -p ${sshd.port} -o StrictHostKeyChecking=no -o BatchMode=yes root@${gateway}`,
      "echo $SSH_AUTH_SOCK",
    ].join("; ");
    const inside = ["web", "sh", "-c"];
    const told = await ok(server, ["exec", "--forward-agent", ...inside, script], { env });
    const [first, socket] = told.trim().split("\n");
    assert.equal(first, greeting);
    assert.match(socket, /^\/run\/svc\/agents\/[0-9a-f]{32}\/agent$/);
    // Its end was the end of the socket, and the key was never here: without the agent there is no way in.
    await withoutAgent(server, "/run/svc/agents");
    const left = await server.svc(["exec", ...inside, script], { env });
    assert.ok(!left.stdout.includes(greeting));
    assert.match(left.stderr, /Permission denied/);
  });
}

/** Folders and files of the caller, mounted by the companion. */
async function mounting(t: Deno.TestContext, server: Server, url: string): Promise<void> {
  await t.step(
    "the caller's files, mounted by the companion; with it the session ends",
    async () => {
      const folder = await Deno.makeTempDir({ prefix: "svc-e2e-callers-" });
      try {
        await Deno.writeTextFile(join(folder, "a"), "of the caller\n");
        const path = join(folder, "spec.json");
        const command = ["sh", "-c", "cat /data/a; exec sleep 1000"];
        const files = { name: "files", image: "app:1", command, stopSignal: "SIGKILL" };
        await Deno.writeTextFile(path, JSON.stringify(files));
        const before = await companions(url);
        await using client = new Client(server, [
          ...["-f", path, "--mount", `${folder}:/data`, "--mount", `${folder}/a:/etc/a:ro`],
        ]);
        await client.wrote(/files is deployed/);
        const inside = ["exec", "files", "sh", "-c"];
        const script = "cat /data/a; echo of the workload > /data/b; cat /etc/a; echo no > /etc/a";
        const told = await server.svc([...inside, script]);
        assert.equal(told.stdout, "of the caller\nof the caller\n");
        assert.match(told.stderr, /Read-only file system/);
        assert.equal(await Deno.readTextFile(join(folder, "b")), "of the workload\n");
        await ok(server, ["restart", "files"]);
        assert.match((await server.svc([...inside, "cat /data/b"])).stdout, /of the workload/);
        // With whatever it has started; one of those before it may be on its way out.
        for (const pid of await companions(url)) if (!before.includes(pid)) kill(pid);
        await client.wrote(/the companion that served them was started again/);
        await client.ended;
        await eventually(
          "its removal",
          async () => (await server.svc(["status", "files"])).code === 1,
        );
        await eventually("the end of its mounts", async () => {
          const mounts = await Deno.readTextFile("/proc/self/mountinfo");
          return !mounts.includes("/companions/files-");
        });
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  );
}

async function refusals(t: Deno.TestContext, server: Server, { variable }: Host): Promise<void> {
  await t.step(
    "what a companion would not reach the server out of is refused by name",
    async () => {
      for (
        const [more, what] of [
          [{ networks: ["none"] }, "the network none"],
          [{ egress: { mode: "proxy", default: "deny" } }, "egress mode proxy"],
        ] as const
      ) {
        const stdin = JSON.stringify({ ...JSON.parse(spec("1")), name: "alone", ...more });
        const { code, stderr } = await server.svc(["deploy", "-f", "-"], { stdin });
        assert.equal(code, 1);
        assert.ok(stderr.includes(`Cannot deploy alone with ${what}: ${variable} puts`), stderr);
      }
    },
  );
}

async function scenario(t: Deno.TestContext, host: Host): Promise<void> {
  const { variable } = host;
  const base = freeSubnetBase();
  const gateway = `${base}.0.1`;
  const common = { ...host.env, [variable]: "1", SVC_CNI_SUBNET_BASE: base };
  await t.step("without what they need nothing is made, and the variables are named", async () => {
    await using server = await startServer({ env: common });
    await baseImage(server, "app:1");
    const { code, stderr } = await server.svc(["deploy", "-f", "-"], { stdin: spec("1") });
    assert.equal(code, 1);
    assert.match(stderr, /Cannot deploy web: .*SVC_AGENT_IMAGE and SVC_ADVERTISE_URL/);
    assert.equal((await server.svc(["status", "web"])).code, 1);
  });
  const port = freePort();
  const url = `http://${gateway}:${port}`;
  await using server = await startServer({
    ...{ listen: "0.0.0.0", port },
    env: { ...common, SVC_AGENT_IMAGE: "svc-agent:1", SVC_ADVERTISE_URL: url },
  });
  const files = await Promise.all(
    [...await sshFiles()].map(async (path) => [path.slice(1), await Deno.readFile(path)] as const),
  );
  await baseImage(server, "app:1", { layers: [Object.fromEntries(files)] });
  await ok(server, ["image", "agent", "svc-agent:1"]);
  await following(t, server, url);
  await forwarding(t, server, gateway);
  await mounting(t, server, url);
  await refusals(t, server, host);
  await t.step("a killed server: the companion attaches to the next one", async () => {
    const before = await companions(url);
    await server.kill9();
    await server.restart();
    assert.equal(await answer(server), "1");
    const after = await companions(url);
    assert.deepEqual(after, before, server.log());
  });
  await t.step("replaced with its instance, and removed with it", async () => {
    const before = await companions(url);
    await ok(server, ["deploy", "-f", "-"], { stdin: spec("2") });
    await eventually("only new ones run", async () => {
      const after = await companions(url);
      return after.length > 0 && after.every((pid) => !before.includes(pid));
    });
    assert.equal(await answer(server), "2");
    await ok(server, ["rm", "web"]);
    await none(url);
  });
}

e2eTest(
  "bare: companions follow their instances, and lead to them",
  { root: true, commands: [...COMMANDS, "conmon"] },
  (t) => scenario(t, { variable: "SVC_BARE_REMOTE", env: {} }),
);

e2eTest(
  "containerd: companions follow their instances, and lead to them",
  { root: true, commands: [...COMMANDS, "containerd", "ctr", "perl", "flock", "umoci"] },
  async (t) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-companion-" });
    try {
      await using daemon = await startContainerd(folder);
      const env = { SVC_DEPLOY_BACKEND: "containerd", CONTAINERD_ADDRESS: daemon.address };
      await t.step("without companions the caller's files are refused by name", async () => {
        await using server = await startServer({ env });
        const { code, stderr } = await server.svc([
          ...["deploy", "--session", "--name", "files", "--mount", `${folder}:/data`, "app:1"],
        ]);
        assert.equal(code, 1);
        assert.match(stderr, /SVC_CONTAINERD_REMOTE is off/);
      });
      await scenario(t, { variable: "SVC_CONTAINERD_REMOTE", env });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
