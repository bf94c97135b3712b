/** `svc exec -it`: a person at a terminal, and a shell in a workload of the bare backend. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually } from "../waits.ts";
import { baseImage, e2eTest, type Server, startServer } from "./harness.ts";
import { sit as sitAt } from "./sit.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "skopeo", "setsid", "stty"],
};

/** `svc exec -it ARGS` in a window. */
const sit = (server: Server, args: string[], env?: Record<string, string>) =>
  sitAt(server, ["exec", "-it", ...args], env);

/** Terminals that the server holds. */
function terminals(server: Server): number {
  const folder = `/proc/${server.pid}/fd`;
  return Array.from(Deno.readDirSync(folder)).filter(({ name }) => {
    try {
      return /ptmx|\/pts\//.test(Deno.readLinkSync(`${folder}/${name}`));
    } catch {
      return false; // closed meanwhile
    }
  }).length;
}

async function deploy(server: Server, spec: Record<string, unknown>): Promise<void> {
  const { code, stderr } = await server.svc(["deploy", "-f", "-"], {
    stdin: JSON.stringify({ stopSignal: "SIGKILL", ...spec }),
  });
  assert.equal(code, 0, stderr);
}

e2eTest("exec -it: a person at a shell in a workload", NEEDS, async (t) => {
  await using server = await startServer();
  const { name: image } = await baseImage(server, "base:v1");
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-tty-" });
  try {
    await deploy(server, { name: "web", image });
    await deploy(server, { name: "own", image, shells: ["fish", `env "WHOSE=the workload" sh`] });
    await steps(t, server, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

async function steps(t: Deno.TestContext, server: Server, folder: string): Promise<void> {
  const { dataDir } = server;
  const nobody = async (mark: string) => {
    await eventually(`${mark} has ended`, async () => {
      const { stdout } = await server.svc(["exec", "web", "ps"]);
      return stdout !== "" && !stdout.includes(mark);
    });
  };

  await t.step("a shell: what it shows, its size, Ctrl-C, its exit code", async () => {
    const { process, person } = await sit(server, ["-e", "A=b", "web", "sh"]);
    await person.types("busybox tty; busybox stty size; echo $TERM $A\n");
    await person.sees(/\/dev\/pts\/\d+\r\n37 101\r\nxterm-test b\r\n/);
    process.resize({ columns: 200, rows: 50 });
    const resized = 'until [ "$(busybox stty size)" = "50 200" ]; do sleep 0.05; done';
    await person.types(`${resized}; echo the""re\n`);
    await person.sees(/there\r\n/);
    await person.types(`sh -c 'echo go""ing; exec sleep 1000'\n`);
    await person.sees(/going\r\n/);
    await person.types("\x03");
    await person.types("echo code $?\n");
    await person.sees(/code 130\r\n/);
    await person.types("exit 7\n");
    await person.sees(/ended with 7, as before\r\n/);
    await person.end();
  });

  await t.step("no command: the workload's shells, the profile's, the usual ones", async () => {
    const config = join(folder, "config.json");
    const context = { shells: ["/no/such/shell", "env 'WHOSE=the profile' sh"] };
    const profile = { "current-context": "a", contexts: { a: context } };
    await Deno.writeTextFile(config, JSON.stringify(profile), { mode: 0o600 });
    for (
      const [deployment, env, whose] of [
        ["web", {}, "nobody"],
        ["web", { SVC_CONFIG: config }, "the profile"],
        ["own", { SVC_CONFIG: config }, "the workload"],
      ] as const
    ) {
      const { person } = await sit(server, [deployment], env);
      await person.types('echo "it is ${WHOSE:-nobody}."\n');
      const [, said] = await person.sees(/it is ([a-z ]+)\.\r\n/);
      assert.equal(said, whose);
      // Ctrl-D
      await person.types("\x04");
      await person.sees(/ended with 0, as before\r\n/);
      await person.end();
    }
  });

  await t.step("no such command is 127, nothing to run it in is 1", async () => {
    const missing = await sit(server, ["web", "no-such-command"]);
    await missing.person.sees(/no such command in the container[^]*ended with 127, as before/);
    await missing.person.end();
    assert.equal((await server.svc(["stop", "own"])).code, 0);
    const stopped = await sit(server, ["own"]);
    await stopped.person.sees(/svc: Cannot run a command in own-0: it is not running\r\n/);
    await stopped.person.sees(/ended with 1, as before/);
    await stopped.person.end();
  });

  await t.step("a huge paste arrives whole, and as it was typed", async () => {
    const script =
      "busybox stty raw -echo; echo ready; head -c 2000000 | sha256sum; busybox stty sane";
    const { person } = await sit(server, ["web", "sh", "-c", script]);
    await person.sees(/ready\r?\n/);
    const paste = "all work and no play \x03\x04\x1a\r\n".repeat(80_000).slice(0, 2_000_000);
    await person.types(paste);
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(paste));
    await person.sees(new RegExp(new Uint8Array(digest).toHex()));
    await person.sees(/ended with 0, as before/);
    await person.end();
  });

  await t.step("-t alone: a terminal there, none here, and the last words too", async () => {
    const numbers = Array.from({ length: 20_000 }, (_, i) => `${i + 1}\r\n`).join("");
    const there = await server.svc(["exec", "-t", "web", "seq", "20000"]);
    assert.equal(there.code, 0);
    // The two terminals on the way may both return the carriage.
    assert.ok(there.stdout.replaceAll(/\r+\n/g, "\r\n") === numbers);
    const here = await server.svc(["exec", "-it", "web", "sh"], { stdin: "" });
    assert.equal(here.code, 2);
    assert.match(here.stderr, /the input device is not a terminal/);
  });

  await t.step("who is interrupted or hangs up leaves nothing behind", async () => {
    for (const [signal, code] of [["SIGTERM", 143], ["SIGHUP", 129]] as const) {
      const { person, pid } = await sit(server, ["web", "sh", "-c", "echo ready; exec sleep 1234"]);
      await person.sees(/ready\r\n/);
      Deno.kill(pid, signal);
      await person.sees(new RegExp(`ended with ${code}, as before`));
      await person.end();
      await nobody("sleep 1234");
    }
    const { person } = await sit(server, ["web", "sh", "-c", "echo ready; exec sleep 4321"]);
    await person.sees(/ready\r\n/);
    await person.leaves();
    await nobody("sleep 4321");
    await eventually("the server holds no terminal", () => terminals(server) === 0);
    await eventually("no file of theirs is left", async () => {
      const names = await Array.fromAsync(walk(dataDir));
      return !names.some((name) => /^exec-.*\.(json|pid)$/.test(name));
    });
  });

  await t.step("a server that ends gives the terminal back", async () => {
    const { person } = await sit(server, ["web", "sh", "-c", "echo ready; exec sleep 1000"]);
    await person.sees(/ready\r\n/);
    await server.stop();
    await person.sees(/the server is shutting down[^]*ended with 125, as before/);
    await person.end();
  });
}

/** Names of the files below a folder that may change meanwhile. */
async function* walk(folder: string): AsyncGenerator<string> {
  for await (const entry of Deno.readDir(folder)) {
    if (entry.isFile) yield entry.name;
    else if (entry.isDirectory && entry.name !== "snapshots") yield* walk(join(folder, entry.name));
  }
}
