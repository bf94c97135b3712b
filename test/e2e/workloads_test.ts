/** What a person sees of workloads and does to them, on the bare backend with the real executable. */
import assert from "node:assert/strict";
import { eventually } from "../waits.ts";
import {
  baseImage,
  e2eTest,
  type RunOutput,
  runTool,
  type Server,
  startServer,
} from "./harness.ts";
import { sit } from "./sit.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "skopeo", "setsid", "stty"],
};

/** Answers signals and its input, and says what it does. */
const MAIN = `trap 'echo hup' HUP; trap 'exit 9' INT; echo ready
while true; do if read -r line; then echo "got $line"; else sleep 0.1; fi; done`;

const PROBE = { test: ["CMD-SHELL", "cat /tmp/probe && test ! -e /tmp/sick"], interval: "200ms" };

async function good(answer: Promise<RunOutput>): Promise<string> {
  const { code, stdout, stderr } = await answer;
  assert.equal(code, 0, stderr);
  return stdout;
}

async function deploy(server: Server, spec: Record<string, unknown>): Promise<void> {
  const stdin = JSON.stringify({ stopSignal: "SIGKILL", ...spec });
  await good(server.svc(["deploy", "-f", "-"], { stdin }));
}

/** Asks until the answer has it. */
const until = (server: Server, args: string[], pattern: RegExp): Promise<RunOutput> =>
  eventually(`${args.join(" ")} shows ${pattern}`, async () => {
    const answer = await server.svc(args);
    return pattern.test(answer.stdout) && answer;
  });

e2eTest(
  "workloads: stats, top, events, kill, pause, volumes, networks, health",
  NEEDS,
  async (t) => {
    await using server = await startServer();
    const { name: image } = await baseImage(server, "base:v1");
    const svc = (...args: string[]) => good(server.svc(args));
    const watching = new AbortController();
    const events = await fetch(`${server.url}/.svc/v1/events?deployment=web`, {
      signal: watching.signal,
    });
    await deploy(server, {
      ...{ name: "web", image, command: ["sh", "-c", MAIN], restart: "no" },
      volumes: [{ name: "data", target: "/data" }],
      networks: [{ name: "front" }],
    });

    await t.step("stats: one reading, also as JSON", async () => {
      assert.match(await svc("stats", "--no-stream"), /\nweb-0 +\d+\.\d\d% +\S+ [KM]iB /);
      const json = JSON.parse(await svc("stats", "--no-stream", "--output", "json", "web"));
      assert.deepEqual([json.instance, typeof json.cpuPercent], ["web-0", "number"]);
      assert(json.memory > 0 && json.processes > 0 && json.cpu > 0);
    });

    await t.step("stats: live on a terminal, which is as it was afterwards", async () => {
      const { person, pid } = await sit(server, ["stats"]);
      await person.sees(/INSTANCE[^\n]*\r\nweb-0 +\d+\.\d\d%/);
      Deno.kill(pid, "SIGINT");
      await person.sees(/\[\?25h[^]*ended with 130, as before/);
      await person.end();
    });

    await t.step("top", async () => {
      const shown = await svc("top", "web");
      assert.match(shown, /PID/);
      assert.match(shown, /while true/);
    });

    await t.step("kill, pause, unpause", async () => {
      assert.equal(await svc("kill", "-s", "HUP", "web"), "web\n");
      await until(server, ["logs", "web"], /hup/);
      assert.equal(await svc("pause", "web"), "web\n");
      await until(server, ["status", "web"], /web-0 +paused/);
      assert.equal((await server.svc(["health", "web"])).code, 1);
      assert.equal(await svc("unpause", "web"), "web\n");
      await until(server, ["status", "web"], /web-0 +running/);
      assert.equal(await svc("kill", "--signal", "int", "web"), "web\n");
      await until(server, ["status", "web"], /web-0 +exited\(9\)/);
      const stopped = await server.svc(["kill", "-s", "HUP", "web"]);
      assert.equal(stopped.code, 1);
      assert.match(stopped.stderr, /^svc: Cannot /);
    });

    await t.step("events: what has happened since", async () => {
      const text = events.body!.pipeThrough(new TextDecoderStream()).getReader();
      let seen = "";
      while (!seen.includes('"died"')) seen += (await text.read()).value ?? assert.fail(seen);
      const told = seen.trim().split("\n").map((line) => JSON.parse(line));
      assert.deepEqual(
        told.slice(0, 3).map(({ type, instance, exitCode }) => [type, instance, exitCode]),
        [
          ["created", "web-0", undefined],
          ["started", "web-0", undefined],
          ["died", "web-0", 9],
        ],
      );
      watching.abort();
      await text.cancel().catch(() => {});
    });

    await t.step("volumes and networks: in use they stay, afterwards they go", async () => {
      assert.match(await svc("volume", "ls"), /\ndata +\S+ .*web/);
      assert.match(await svc("network", "ls"), /\nfront +\S+ +10\.\S+ +web +no/);
      assert.match(await svc("network", "inspect", "front"), /Used by: +web\n/);
      for (const [kind, name] of [["volume", "data"], ["network", "front"]]) {
        const used = await server.svc([kind, "rm", name]);
        assert.equal(used.code, 1);
        assert.match(used.stderr, /web/);
      }
      await svc("rm", "web");
      assert.equal(await svc("volume", "rm", "data"), "data\n");
      assert.equal(await svc("volume", "ls", "-q"), "");
      assert.equal((await server.svc(["volume", "inspect", "data"])).code, 1);
    });

    await t.step("health: the last probe", async () => {
      const command = ["sh", "-c", "echo fine > /tmp/probe; exec sleep 1000"];
      await deploy(server, {
        name: "probed",
        image,
        command,
        healthcheck: { ...PROBE, retries: 1 },
      });
      const fine = /probed-0 +healthy +0 +\d+s +exit code 0: fine\n/;
      const well = await until(server, ["health"], fine);
      assert.equal(well.code, 0);
      await svc("exec", "probed", "sh", "-c", "echo ill > /tmp/probe; touch /tmp/sick");
      // One that was under way may have read what was there before.
      const told = /probed-0 +unhealthy +\d+ +\d+s +exit code 1: ill\n/;
      const sick = await until(server, ["health", "probed"], told);
      assert.equal(sick.code, 1);
    });
  },
);

e2eTest("cp: files into a workload and out of it", NEEDS, async (t) => {
  await using server = await startServer();
  const { name: image } = await baseImage(server, "base:v1");
  await deploy(server, { name: "files", image, command: ["sleep", "100000"], replicas: 2 });
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-cp-" });
  const cp = (...args: string[]) => good(server.svc(["cp", ...args], { cwd: folder }));
  const inside = (script: string) => good(server.svc(["exec", "files", "sh", "-c", script]));
  try {
    await t.step("a tree there and back: modes, owners, links, holes", async () => {
      await runTool("sh", [
        "-ec",
        `cd ${folder}; mkdir -p t/sub; echo one > t/file; chown 12:34 t/file; chmod 4750 t/file; ln t/file t/sub/same
        ln -s ../file t/sub/link; printf x | dd of=t/holes bs=1 seek=30000000 status=none`,
      ]);
      await cp("-a", "t", "files:/copy");
      const shape = "stat -c '%a %u:%g %h' file; readlink sub/link; stat -c %s holes; " +
        "test $(stat -c %b holes) -lt 1000 && echo sparse";
      const want = "4750 12:34 2\n../file\n30000001\nsparse\n";
      assert.equal(await inside(`cd /copy && ${shape}`), want);
      await cp("-a", "files:/copy", "back");
      const { stdout } = await runTool("sh", ["-ec", `cd ${folder}/back; ${shape}`]);
      assert.equal(stdout, want);
      await cp("t/file", "files/1:/only");
      const other = await server.svc(["exec", "files", "cat", "/only"]);
      assert.notEqual(other.code, 0, "it went to the other instance");
      const there = await good(server.svc(["exec", "--instance", "1", "files", "cat", "/only"]));
      assert.equal(there, "one\n");
    });

    await t.step(
      "links of a workload lead nowhere on the host, and what is missing is told",
      async () => {
        await inside(
          "ln -s /etc /copy/etc; ln -s ../../../../../.. /copy/up; echo inner > /etc/svc-cp",
        );
        await cp("files:/copy/etc/svc-cp", "a");
        await cp("-L", "files:/copy/up/etc/svc-cp", "b");
        for (const name of ["a", "b"]) {
          assert.equal(await Deno.readTextFile(`${folder}/${name}`), "inner\n");
        }
        for (
          const [args, why] of [
            [["files:/none", "."], /there is no such file/],
            [["t", "files:/none/deep"], /none/],
            [["none:/etc", "."], /no such deployment/],
            [["files/9:/etc", "."], /9/],
          ] as const
        ) {
          const { code, stderr } = await server.svc(["cp", ...args], { cwd: folder });
          assert.equal(code, 1, stderr);
          assert.match(stderr, why);
        }
      },
    );

    await t.step("an archive on standard output and input, of a stopped workload too", async () => {
      await good(server.svc(["stop", "files"]));
      await cp("files/0:/copy", "stopped");
      assert.equal(await Deno.readTextFile(`${folder}/stopped/file`), "one\n");
      await runTool("sh", [
        "-ec",
        `cd ${folder}; mkdir in; echo piped > in/piped; tar -czf in.tgz in`,
      ]);
      const stdin = await Deno.readFile(`${folder}/in.tgz`);
      await good(server.svc(["cp", "-", "files/0:/copy"], { stdin }));
      await good(server.svc(["start", "files"]));
      assert.equal(await inside("cat /copy/in/piped"), "piped\n");
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

e2eTest("attach: a person at the main process of a workload", NEEDS, async (t) => {
  await using server = await startServer();
  const { name: image } = await baseImage(server, "base:v1");
  const main = { image, command: ["sh", "-c", MAIN], stdinOpen: true, restart: "no" };
  await deploy(server, { name: "plain", ...main });
  const shell = { image, command: ["sh"], stdinOpen: true, tty: true, restart: "no" };
  await deploy(server, { name: "shell", ...shell });

  await t.step("a terminal: its size, keys that detach, and its end", async () => {
    const { person } = await sit(server, ["attach", "shell"]);
    await person.types("busybox stty size\n");
    await person.sees(/37 101\r\n/);
    await person.types("A=kept\n\x10\x11");
    await person.sees(/svc: detached from shell\r\nended with 0, as before/);
    await person.end();
    const again = await sit(server, ["attach", "--detach-keys", "ctrl-a", "shell"]);
    await again.person.types('echo "it is $A."\n');
    await again.person.sees(/it is kept\.\r\n/);
    await again.person.types("exit 5\n");
    await again.person.sees(/ended with 5, as before/);
    await again.person.end();
  });

  await t.step(
    "without a terminal: detached by keys the process runs on, an interrupt reaches it",
    async () => {
      // The terminal here keeps its own keys, and sends lines.
      const { person } = await sit(server, ["attach", "--detach-keys", "a,b", "plain"]);
      await person.types("one\n");
      await person.sees(/got one\r\n/);
      await person.types("ab\n");
      await person.sees(/svc: detached from plain\r\n/);
      await person.end();
      const again = await sit(server, ["attach", "plain"]);
      await again.person.types("two\n");
      await again.person.sees(/got two\r\n/);
      Deno.kill(again.pid, "SIGHUP");
      await again.person.sees(/hup\r\n/);
      Deno.kill(again.pid, "SIGINT");
      await again.person.sees(/ended with 9, as before/);
      await again.person.end();
    },
  );

  await t.step("nothing runs: no such deployment is told at once", async () => {
    const missing = await server.svc(["attach", "none"]);
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /there is no such deployment/);
  });
});
