import assert from "node:assert/strict";
import { join } from "node:path";
import { FakeKeyboard, svcFake } from "../../test/fixtures/cli.ts";
import { decodeExecQuery, type ExecInput } from "../api/exec.ts";
import { SvcError } from "../base/errors.ts";
import { interruption } from "../base/terminal.ts";
import type { Attached } from "../wire/attached/session.ts";
import { upgradeAttached } from "../wire/attached/testing.ts";
import { LineReader, writeLine } from "../wire/lines.ts";
import { readAll } from "../wire/testing.ts";
import type { YamuxStream } from "../wire/yamux/stream.ts";

/** A command that was started. */
interface Started {
  attached: Attached;
  stdio: YamuxStream;
  stderr: YamuxStream;
  out(text: string): Promise<void>;
  exit(code: number): Promise<void>;
  sizes: LineReader;
}

function start(attached: Attached): Started {
  const [command, stdio, stderr] = (["command", "stdio", "stderr"] as const)
    .map((kind) => attached.open(kind));
  return {
    ...{ attached, stdio, stderr },
    out: (text) => stdio.write(bytes(text)),
    async exit(code) {
      await Promise.all([stdio.closeWrite(), stderr.closeWrite()]);
      await writeLine(command, { exit: code });
      await attached.close();
    },
    sizes: new LineReader(command),
  };
}

/** The connection breaks once the command is started. */
async function cutOff({ attached, stderr }: Started): Promise<void> {
  // Behind the other streams.
  await stderr.write(new Uint8Array(0));
  attached.drop("cut");
}

/** A server whose commands are one function; the query of the last one is kept. */
function execServer(run: (started: Started) => void | Promise<void>) {
  return attachedServer((attached) => run(start(attached)));
}

function attachedServer(run: (attached: Attached) => void | Promise<void>) {
  const seen: { query?: ReturnType<typeof decodeExecQuery> } = {};
  const handler = (request: Request, url: URL) => {
    if (request.headers.get("upgrade") !== "websocket") {
      throw new SvcError("internal", "no upgrade");
    }
    seen.query = decodeExecQuery(url.searchParams);
    const { session, response } = upgradeAttached(request);
    session.ready.then(() => run(session)).catch(() => {/* the client went away */});
    return response;
  };
  return { seen, handler };
}

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("exec: streams, flags passed through, the command's exit code", async () => {
  const { seen, handler } = execServer(async ({ out, stderr, exit }) => {
    await out("out");
    await stderr.write(bytes("err"));
    await exit(7);
  });
  const args = ["exec", "-e", "A=1", "-u", "app", "-w", "/srv", "web", "ls", "-la", "--help"];
  const { code, stdout, stderr } = await svcFake(args, { handler });
  assert.deepEqual([code, stdout, stderr], [7, "out", "err"]);
  assert.deepEqual(seen.query, {
    command: ["ls", "-la", "--help"],
    env: ["A=1"],
    user: "app",
    workingDir: "/srv",
    instance: undefined,
    tty: false,
    stdin: false,
  });
});

Deno.test("exec -i: standard input whole and in order, then its end", async () => {
  const input = new Uint8Array(3 * 1024 * 1024).map((_, i) => i * 31);
  let read: Uint8Array | undefined;
  const { seen, handler } = execServer(async ({ stdio, exit }) => {
    read = await readAll(stdio);
    await exit(0);
  });
  const { code } = await svcFake(["exec", "-i", "web", "cat"], { handler, stdin: input });
  assert.equal(code, 0);
  assert.equal(seen.query?.stdin, true);
  assert.deepEqual(read, input);
});

Deno.test("exec -i: a command that ends does not wait for standard input", async () => {
  const { handler } = execServer(({ exit }) => exit(3));
  const stdin = new ReadableStream<Uint8Array>(); // never a byte, never an end
  assert.equal((await svcFake(["exec", "-i", "web", "true"], { handler, stdin })).code, 3);
});

Deno.test("exec: refused before it starts is 1, broken after it started is 125", async () => {
  const refused = await svcFake(["exec", "gone", "ls"], {
    handler: () => {
      throw new SvcError("not_found", "Cannot exec in gone: there is no such deployment");
    },
  });
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /^svc: Cannot exec in gone: there is no such deployment\n/);

  const reported = execServer(async ({ attached, out }) => {
    await out("begun\n");
    attached.fail(new SvcError("internal", "Cannot go on", { help: "" }));
  });
  const failed = await svcFake(["exec", "web", "ls"], { handler: reported.handler });
  assert.deepEqual([failed.code, failed.stdout, failed.stderr], [
    125,
    "begun\n",
    "svc: Cannot go on\n",
  ]);

  const broken = execServer(cutOff);
  const cut = await svcFake(["exec", "web", "ls"], { handler: broken.handler });
  assert.equal(cut.code, 125);
  assert.match(cut.stderr, /Cannot tell how the command in web ended/);
});

Deno.test("exec: an interrupt closes the session and ends with 130", async () => {
  const controller = new AbortController();
  const { promise: closed, resolve } = Promise.withResolvers<unknown>();
  const { handler } = execServer(({ attached }) => {
    attached.closed.then(resolve);
    controller.abort(interruption("SIGINT"));
  });
  const { code, stderr } = await svcFake(["exec", "web", "sleep", "9"], {
    handler,
    signal: controller.signal,
  });
  assert.deepEqual([code, stderr], [130, ""]);
  await closed;
});

const SIZE = { columns: 101, rows: 37 };

Deno.test("exec -it: raw from the command's start to its end, keys and sizes travel, TERM goes along", async () => {
  const keyboard = new FakeKeyboard(SIZE);
  const modes: string[][] = [];
  const { seen, handler } = attachedServer(async (attached) => {
    modes.push([...keyboard.modes]);
    const { stdio, out, exit, sizes } = start(attached);
    await out("$ ");
    assert.deepEqual(await stdio.read(), bytes("ls\x03"));
    modes.push([...keyboard.modes]);
    keyboard.resize({ columns: 200, rows: 50 });
    keyboard.resize({ columns: 200, rows: 50 });
    keyboard.resize({ columns: 9, rows: 9 });
    const told = [await sizes.line<ExecInput>(), await sizes.line<ExecInput>()];
    assert.deepEqual(told.map((one) => one?.resize.columns), [200, 9]);
    await exit(7);
  });
  const keys = Promise.withResolvers<void>();
  const stdin = new ReadableStream<Uint8Array>({
    async start(controller) {
      await keys.promise;
      controller.enqueue(bytes("ls\x03"));
    },
  });
  const { code, stdout, stderr } = await svcFake(["exec", "-it", "-e", "A=1", "web", "sh"], {
    handler,
    keyboard,
    stdin,
    env: { TERM: "xterm-256color" },
    onStdout: () => keys.resolve(),
  });
  assert.deepEqual([code, stdout, stderr], [7, "$ ", ""]);
  assert.deepEqual(modes, [[], ["raw"]]);
  assert.deepEqual(keyboard.modes, ["raw", "restored"]);
  assert.equal(keyboard.listeners, 0);
  const { command, env, size, tty } = seen.query!;
  assert.deepEqual({ command, env, size, tty }, {
    command: ["sh"],
    env: ["TERM=xterm-256color", "A=1"],
    size: SIZE,
    tty: true,
  });
});

Deno.test("exec -it: the terminal is given back before an error is told, and at an interrupt", async () => {
  const broken = new FakeKeyboard(SIZE);
  const { handler } = execServer(cutOff);
  const modes: string[][] = [];
  const cut = await svcFake(["exec", "-it", "web", "sh"], {
    handler,
    keyboard: broken,
    onWrite: () => modes.push([...broken.modes]),
  });
  assert.equal(cut.code, 125);
  assert.match(cut.stderr, /Cannot tell how the command in web ended/);
  assert.deepEqual(modes, [["raw", "restored"]]);
  assert.equal(broken.listeners, 0);

  const keyboard = new FakeKeyboard(SIZE);
  const controller = new AbortController();
  const open = execServer(({ out }) => out("on"));
  const { code } = await svcFake(["exec", "-it", "web", "sh"], {
    handler: open.handler,
    keyboard,
    stdin: new ReadableStream<Uint8Array>(),
    signal: controller.signal,
    onStdout: () => controller.abort(interruption("SIGHUP")),
  });
  assert.equal(code, 129);
  assert.deepEqual(keyboard.modes, ["raw", "restored"]);
  assert.equal(keyboard.listeners, 0);
});

Deno.test("exec -it: a command that never ran is 1, and the terminal stays as it was", async () => {
  const keyboard = new FakeKeyboard(SIZE);
  const { handler } = attachedServer((attached) =>
    attached.fail(new SvcError("conflict", "Cannot run it", { help: "h" }))
  );
  const { code, stderr } = await svcFake(["exec", "-it", "web", "sh"], { handler, keyboard });
  assert.deepEqual([code, stderr], [1, "svc: Cannot run it\n  h\n"]);
  assert.deepEqual(keyboard.modes, []);
});

Deno.test("exec -t: a terminal for the command alone needs none here", async () => {
  const { seen, handler } = execServer(async ({ out, exit }) => {
    await out("out\r\n");
    await exit(0);
  });
  const { code, stdout } = await svcFake(["exec", "-t", "web", "ls"], { handler });
  assert.deepEqual([code, stdout], [0, "out\r\n"]);
  const { tty, stdin, size, env } = seen.query!;
  assert.deepEqual({ tty, stdin, size, env }, {
    tty: true,
    stdin: false,
    size: undefined,
    env: [],
  });
});

Deno.test("exec: -it needs a terminal, and no command needs -it", async () => {
  const none = await svcFake(["exec", "-it", "web", "sh"], { handler: () => new Response() });
  assert.deepEqual([none.code, none.requests], [2, []]);
  assert.match(
    none.stderr,
    /^svc: Cannot use -t together with -i: the input device is not a terminal\n/,
  );
  for (const flags of [[], ["-i"], ["-t"]]) {
    const { code, stderr } = await svcFake(["exec", ...flags, "web"]);
    assert.equal(code, 2);
    assert.match(stderr, /^svc: Cannot run exec: COMMAND is missing\n {2}.*-it, for a shell\n/);
  }
});

Deno.test("shells: svc exec -it without a command asks for those of the profile", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const config = join(folder, "config.json");
    const project = join(folder, "svc-context.json");
    const profile = (shells: string[]) => JSON.stringify({ shells });
    const { seen, handler } = execServer(({ exit }) => exit(0));
    const shells = async (args: string[], env: Record<string, string> = {}) => {
      seen.query = undefined;
      const { code, stderr } = await svcFake(["exec", "-it", ...args], {
        handler,
        keyboard: new FakeKeyboard(SIZE),
        env: { SVC_CONFIG: config, HOME: folder, ...env },
      });
      assert.equal(code, 0, stderr);
      return [seen.query!.command, seen.query!.shells];
    };
    assert.deepEqual(await shells(["web"]), [[], undefined]);
    const context = { shells: ["bash -l", "busybox sh"] };
    const stored = { "current-context": "a", contexts: { a: context } };
    await Deno.writeTextFile(config, JSON.stringify(stored), { mode: 0o600 });
    assert.deepEqual(await shells(["web"]), [[], ["bash -l", "busybox sh"]]);
    assert.deepEqual(await shells(["web", "zsh"]), [["zsh"], undefined]);
    await Deno.writeTextFile(project, profile(["/bin/evil"]), { mode: 0o600 });
    const named = { SVC_CONTEXT_FILE: project };
    assert.deepEqual(await shells(["web"], named), [[], ["/bin/evil"]]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
