/** The agent with a real server, from another machine: what it holds, and every way in which it is disturbed. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { removeFolder } from "../peers/cleanup.ts";
import { laptop } from "../peers/laptop.ts";
import { proxied } from "../peers/outside.ts";
import { eventually } from "../waits.ts";
import { e2eTest, EXECUTABLE, freePort, type RunOutput, startServer } from "./harness.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "curl", "ip", "setpriv"],
};

const DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
STOPSIGNAL SIGKILL
`;

/** Besides its pages, it writes into a file that it has open, and that has no name any more. */
const WEB = "rm -f /srv/pulse; exec 3>/srv/beat; ln /srv/beat /srv/pulse; rm /srv/beat; " +
  "while sleep 0.1; do echo beat >&3; done & exec httpd -f -v -p 8080 -h /srv";

interface Held {
  name: string;
  kind: string;
  state: string;
  detail?: string;
}

async function tool([command, ...args]: readonly string[], options: Deno.CommandOptions = {}) {
  const output = await new Deno.Command(command, { args, ...options }).output();
  const [stdout, stderr] = [output.stdout, output.stderr].map((b) => new TextDecoder().decode(b));
  return { code: output.code, stdout, stderr } satisfies RunOutput;
}

e2eTest("agent: compose up -d from another machine, and what disturbs it", NEEDS, async (t) => {
  await using far = await laptop();
  await using server = await startServer({
    listen: "0.0.0.0",
    env: { SVC_SESSION_GRACE: "10m" },
  });
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-agent-" });
  const [port, local] = [freePort(), freePort()];
  const env = {
    ...{
      PATH: Deno.env.get("PATH")!,
      HOME: Deno.env.get("HOME")!,
      XDG_RUNTIME_DIR: join(folder, "run"),
    },
    ...{
      SVC_CONFIG: "/nonexistent/svc-test-config.yaml",
      SVC_SERVER: `http://${far.host}:${server.port}`,
    },
  };
  const svc = async (args: readonly string[], executable = EXECUTABLE) => {
    const options = { cwd: join(folder, "shop"), env, clearEnv: true, stdin: "null" } as const;
    return await tool([...far.within, executable, ...args], options);
  };
  const ok = async (...args: string[]) => {
    const { code, stdout, stderr } = await svc(args);
    assert.equal(code, 0, `svc ${args.join(" ")}: ${stderr}`);
    return stdout;
  };
  const page = async (seconds = 20) => {
    const url = `http://127.0.0.1:${port}/`;
    return (await tool([...far.within, "curl", "-sS", "--max-time", `${seconds}`, url])).stdout
      .trim();
  };
  const shows = (text: string) =>
    eventually(`the page is ${text}`, async () => await page() === text);
  const gone = (pid: number) =>
    eventually("the agent is gone", () => Deno.stat(`/proc/${pid}`).then(() => false, () => true));
  const status = async (executable?: string) =>
    JSON.parse((await svc(["daemon", "status", "-o", "json"], executable)).stdout) as {
      running: boolean;
      pid: number;
      held: Held[];
    };
  const write = (text: string) => Deno.writeTextFile(join(folder, "shop/src/index.html"), text);
  const started = async () => {
    const answer = await fetch(`${server.url}/.svc/v1/deployments/shop-web`);
    return (await answer.json()).instances[0].startedAt as string;
  };
  const connected = (executable?: string) =>
    eventually("all is connected", async () => {
      const { held } = await status(executable);
      return held.length === 3 && held.every(({ state }) => state === "connected");
    });
  // Each step begins where the one before has ended well.
  const step = async (name: string, work: () => Promise<void>) => {
    if (await t.step(name, work)) return;
    const log = await Deno.readTextFile(join(env.XDG_RUNTIME_DIR, "svc/agent.log"));
    assert.fail(`${name}: ${JSON.stringify(await status())}\n${log}\n${server.log().slice(-3000)}`);
  };
  for (const name of ["run", "shop", "shop/src"]) await Deno.mkdir(join(folder, name));
  const httpd = new Deno.Command(far.within[0], {
    args: [
      ...far.within.slice(1),
      ...["busybox", "httpd", "-f", "-p", `127.0.0.1:${local}`, "-h", join(folder, "shop/src")],
    ],
  }).spawn();
  try {
    await Deno.copyFile("/bin/busybox", join(folder, "shop/busybox"));
    await Deno.writeTextFile(join(folder, "shop/Dockerfile"), DOCKERFILE);
    const rules = [{ pattern: `127.0.0.1:${local}`, route: "client" }];
    const services = {
      web: {
        ...{ build: ".", image: "shop:v1", volumes: ["./src:/srv"], ports: [`${port}:8080`] },
        command: ["sh", "-c", WEB],
      },
      out: {
        ...{ image: "shop:v1", command: ["sleep", "1000"], depends_on: ["web"] },
        "x-svc-egress": { mode: "proxy", rules, default: "deny" },
      },
    };
    await Deno.writeTextFile(join(folder, "shop/compose.yaml"), JSON.stringify({ services }));
    await write("one");

    await step("files, ports and egress of this machine; again, nothing changes", async () => {
      await ok("compose", "up", "-d");
      await shows("one");
      await write("two");
      await shows("two");
      const asked = await ok(
        "compose",
        "exec",
        "-T",
        "out",
        "sh",
        "-c",
        proxied("127.0.0.1", local),
      );
      assert.match(asked, /two/);
      const table = await ok("daemon", "status");
      assert.match(table, /shop +shop-web +session +connected .*\/shop\/src -> \/srv/);
      assert.match(table, new RegExp(`ports +connected .*127.0.0.1:${port} -> shop-web:8080/tcp`));
      assert.match(table, /shop +shop-out +session +connected/);
      const before = await started();
      await ok("compose", "up", "-d");
      assert.equal(await started(), before);
    });
    await step("a cable that is out for a while", async () => {
      const before = await started();
      await far.cable("down");
      assert.equal(await page(1), "");
      await far.cable("up");
      await shows("two");
      assert.equal(await started(), before);
    });
    await step(
      "a server that is killed: what its mounts took with them is deployed again",
      async () => {
        await server.kill9();
        await server.restart();
        await shows("two");
        await connected();
      },
    );
    await step(
      "an agent that is killed: the next command starts one, which goes on",
      async () => {
        const { pid } = await status();
        Deno.kill(pid, "SIGKILL");
        await gone(pid);
        const next = await status();
        assert.notEqual(next.pid, pid);
        assert.equal(next.held.length, 3);
        await connected();
        const { held } = await status();
        const web = held.find(({ name, kind }) => name === "shop-web" && kind === "session")!;
        assert.match(web.detail!, /it ended meanwhile, and was deployed again/);
        await shows("two");
      },
    );
    await step("a newer executable replaces it, and open files stay open", async () => {
      const { pid } = await status();
      const before = await started();
      const newer = join(folder, "svc");
      await Deno.copyFile(EXECUTABLE, newer);
      await Deno.utime(newer, new Date(), new Date());
      assert.notEqual((await status(newer)).pid, pid);
      await connected(newer);
      const size = async () => (await Deno.stat(join(folder, "shop/src/pulse"))).size;
      const then = await size();
      await eventually("it writes on", async () => await size() > then);
      await write("three");
      await shows("three");
      assert.equal(await started(), before);
      await gone(pid);
    });
    await step("another user is refused, whatever the permissions", async () => {
      const nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
      const socket = join(env.XDG_RUNTIME_DIR, "svc/agent.sock");
      const ask = () =>
        tool([...nobody, "curl", "-sS", "--max-time", "20", "--unix-socket", socket, "http://x/"]);
      assert.match((await ask()).stderr, /Failed to connect|Couldn't connect/);
      for (const path of [folder, env.XDG_RUNTIME_DIR]) await Deno.chmod(path, 0o755);
      await Deno.chmod(join(env.XDG_RUNTIME_DIR, "svc"), 0o755);
      await Deno.chmod(socket, 0o666);
      const { code, stdout } = await ask();
      assert.notEqual(code, 0);
      assert.equal(stdout, "");
      const log = await Deno.readTextFile(join(env.XDG_RUNTIME_DIR, "svc/agent.log"));
      assert.match(log, /user 65534 was refused/);
    });
    await step("down ends what it holds, and stop the agent", async () => {
      await ok("compose", "down");
      assert.deepEqual((await status(join(folder, "svc"))).held, []);
      assert.deepEqual(await (await fetch(`${server.url}/.svc/v1/deployments`)).json(), []);
      await ok("daemon", "stop");
      assert.equal((await status()).running, false);
    });
  } finally {
    httpd.kill("SIGKILL");
    await httpd.status;
    await svc(["daemon", "stop"], join(folder, "svc"));
    await removeFolder(folder);
  }
});
