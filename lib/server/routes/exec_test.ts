import assert from "node:assert/strict";
import { encodeExecQuery, type ExecEnd, type ExecQuery } from "../../api/exec.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { SvcError } from "../../base/errors.ts";
import type { TerminalSize } from "../../base/terminal.ts";
import type { ExecRequest, ExecSession } from "../../deploy/backend.ts";
import { attach } from "../../client/attached/attach.ts";
import { createClient } from "../../client/client.ts";
import { LineReader, writeLine } from "../../wire/lines.ts";
import { readAll } from "../../wire/testing.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { startTestServer, STATUS } from "../testing.ts";

const API = "/.svc/v1/deployments";

/** `cat`: echoes its input on stdout, says "done" on stderr at its end, exits 7. */
function echoSession(record: { killed: string[] }): ExecSession {
  const exit = Promise.withResolvers<number>();
  const out = new TransformStream<Uint8Array, Uint8Array>(undefined, undefined, {
    highWaterMark: 1,
  });
  const err = new TransformStream<Uint8Array, Uint8Array>(undefined, undefined, {
    highWaterMark: 8,
  });
  const errors = err.writable.getWriter();
  const output = out.writable.getWriter();
  return {
    stdin: new WritableStream({
      write: (chunk) => output.write(new Uint8Array(chunk)),
      async close() {
        await errors.write(new TextEncoder().encode("done"));
        await Promise.all([errors.close(), output.close()]);
        exit.resolve(7);
      },
    }),
    stdout: out.readable,
    stderr: err.readable,
    exit: exit.promise,
    kill: (signal) => {
      record.killed.push(signal);
      exit.resolve(137);
      return Promise.all([errors.close(), output.close()]).then(() => {}, () => {});
    },
  };
}

interface Recorded {
  killed: string[];
  request?: ExecRequest;
  requests: ExecRequest[];
  sizes: TerminalSize[];
  shells?: string[];
}

/** Where only some programs are. */
const PROGRAMS = ["cat", "ash", "my shell"];

/** Never reads its input. */
function stuckSession(record: { killed: string[] }): ExecSession {
  const killed = Promise.withResolvers<number>();
  return {
    stdin: new WritableStream({ write: () => killed.promise.then(() => {}) }),
    stdout: ReadableStream.from([]),
    stderr: ReadableStream.from([]),
    exit: killed.promise,
    kill: (signal) => {
      record.killed.push(signal);
      killed.resolve(137);
      return Promise.resolve();
    },
  };
}

function refusedSession(): ExecSession {
  return {
    refused: true,
    stdin: new WritableStream(),
    stdout: ReadableStream.from([]),
    stderr: ReadableStream.from([new TextEncoder().encode("no such command")]),
    exit: Promise.resolve(127),
    kill: () => Promise.resolve(),
  };
}

async function execServer() {
  const record: Recorded = { killed: [], requests: [], sizes: [] };
  const server = await startTestServer({
    backend: {
      status: (name) => Promise.resolve(name === "web" ? STATUS : undefined),
      spec: (name) => Promise.resolve({ name, shells: record.shells } as DeploySpec),
      caps: {
        exec: (_name, request) => {
          record.request = request;
          record.requests.push(request);
          if (request.command[0] === "stopped") {
            return Promise.reject(new SvcError("conflict", "Cannot run it: it is stopped"));
          }
          if (request.command[0] === "stuck") return Promise.resolve(stuckSession(record));
          if (!PROGRAMS.includes(request.command[0])) return Promise.resolve(refusedSession());
          const session = echoSession(record);
          if (request.tty) session.resize = (size) => void record.sizes.push(size);
          return Promise.resolve(session);
        },
      },
    },
  });
  const client = createClient({ server: server.base });
  /** A started command by hand. */
  const open = async (query: ExecQuery) => {
    const kinds = ["command", "stdio", "stderr"] as const;
    const opened = kinds.map(() => Promise.withResolvers<YamuxStream>());
    const streams = Promise.all(opened.map(({ promise }) => promise));
    const attached = await attach(client, "/deployments/web/exec", {
      ...{ attempt: "test", begun: streams, query: encodeExecQuery(query) },
      takes: Object.fromEntries(kinds.map((kind, index) => [kind, opened[index].resolve])),
    });
    const [command, stdio, stderr] = await streams;
    const end = () => new LineReader(command).line<ExecEnd>();
    return { attached, command, stdio, stderr, end };
  };
  return { server, record, open };
}

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

Deno.test("exec: streams and exit code travel", async () => {
  const { server, record, open } = await execServer();
  await using _ = server;
  const { attached, stdio, stderr, end } = await open({
    command: ["cat", "-"],
    env: ["A=1"],
    user: "u",
    workingDir: "/w",
    stdin: true,
  });
  const big = crypto.getRandomValues(new Uint8Array(60_000));
  const send = async () => {
    for (let i = 0; i < 30; i++) await stdio.write(big);
    await stdio.closeWrite();
  };
  const [, out, errors] = await Promise.all([send(), readAll(stdio), readAll(stderr)]);
  assert.equal(out.length, 30 * 60_000);
  assert.deepEqual(out.subarray(-60_000), big);
  assert.equal(text(errors), "done");
  assert.deepEqual(await end(), { exit: 7 });
  assert.equal(await attached.closed, undefined);
  assert.deepEqual(record.request, {
    command: ["cat", "-"],
    env: { A: "1" },
    user: "u",
    workingDir: "/w",
    instance: undefined,
    tty: false,
  });
});

Deno.test("exec: without stdin its end comes at once", async () => {
  const { server, open } = await execServer();
  await using _ = server;
  const { end } = await open({ command: ["cat"] });
  assert.deepEqual(await end(), { exit: 7 });
});

Deno.test("exec: a client that goes away ends the command", async () => {
  const { server, record, open } = await execServer();
  await using _ = server;
  const { attached } = await open({ command: ["cat"], stdin: true });
  attached[Symbol.dispose]();
  while (record.killed.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(record.killed, ["SIGKILL"]);
  assert.equal(await server.lifecycle.idle(60_000), true);
});

Deno.test("exec: a line that is none, and a server that shuts down, are told", async () => {
  const { server, record, open } = await execServer();
  await using _ = server;
  const code = async ({ attached }: Awaited<ReturnType<typeof open>>) =>
    (await attached.closed as SvcError).code;
  for (const line of ["\xff\n", "{\n", "x".repeat(2000)]) {
    const bad = await open({ command: ["cat"], stdin: true });
    await bad.command.write(new TextEncoder().encode(line));
    assert.equal(await code(bad), "argument_invalid");
  }
  const cut = await open({ command: ["cat"], stdin: true });
  server.lifecycle.drain();
  assert.equal(await code(cut), "unavailable");
  assert.equal(await server.lifecycle.idle(60_000), true);
  assert.equal(record.killed.length, 4);
});

Deno.test("exec: a terminal has its size from the start and is told of others", async () => {
  const { server, record, open } = await execServer();
  await using _ = server;
  const size = { columns: 101, rows: 37 };
  const tty = await open({ command: ["cat"], tty: true, stdin: true, size });
  await writeLine(tty.command, { resize: { columns: 200, rows: 50 } });
  await tty.stdio.closeWrite();
  assert.deepEqual(await tty.end(), { exit: 7 });
  assert.deepEqual([record.request?.size, record.sizes], [size, [{ columns: 200, rows: 50 }]]);
  const refused = async (query: ExecQuery, resize: unknown) => {
    const session = await open(query);
    await writeLine(session.command, { resize });
    const { code } = await session.attached.closed as SvcError;
    assert.equal(code, "argument_invalid", JSON.stringify(resize));
  };
  for (const bad of [null, {}, { columns: 0, rows: 1 }, { columns: 1, rows: 1e9 }, "1x1"]) {
    await refused({ command: ["cat"], tty: true, stdin: true }, bad);
  }
  await refused({ command: ["cat"], stdin: true }, size);
  assert.equal(record.sizes.length, 1);
});

Deno.test("exec: without a command the first shell that is there", async () => {
  const { server, record, open } = await execServer();
  await using _ = server;
  const tried = async (shells?: string[]) => {
    record.requests.length = 0;
    const last = await open({ command: [], shells, tty: true }).then(
      ({ end }) => end(),
      ({ code }) => code,
    );
    return [record.requests.map(({ command }) => command.join("|")), last];
  };
  assert.deepEqual(await tried(), [["bash", "ash"], { exit: 7 }]);
  assert.deepEqual(await tried(["zsh -l", "'my shell' -x"]), [
    ["zsh|-l", "my shell|-x"],
    { exit: 7 },
  ]);
  record.shells = ["fish", "ash --own"];
  assert.deepEqual(await tried(["'my shell'"]), [["fish", "ash|--own"], { exit: 7 }]);
  record.shells = ["'"];
  assert.deepEqual(await tried(), [[], "argument_invalid"]);
});

Deno.test("exec: why a command cannot run, or no shell is there, is the session's error", async () => {
  const { server, open } = await execServer();
  await using _ = server;
  PROGRAMS.splice(PROGRAMS.indexOf("ash"), 1);
  try {
    await assert.rejects(open({ command: ["stopped"] }), {
      code: "conflict",
      message: "Cannot run it: it is stopped",
    });
    await assert.rejects(open({ command: [], tty: true, shells: ["zsh -l"] }), {
      code: "not_found",
      message: "Cannot open a shell in web: it has none of zsh, bash, ash, sh",
      help: "name a command that is there: svc exec -it NAME COMMAND",
    });
  } finally {
    PROGRAMS.push("ash");
  }
});

Deno.test("exec: a client whose command reads nothing waits, and nothing piles up", async () => {
  const { server, record, open } = await execServer();
  await using _ = server;
  const { attached, stdio } = await open({ command: ["stuck"], stdin: true });
  let sent = 0;
  const sending = (async () => {
    for (; sent < 8 << 20; sent += 65_536) await stdio.write(new Uint8Array(65_536));
  })();
  for (let before = -1; before !== sent;) {
    before = sent;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.ok(sent <= 1 << 20, `${sent} bytes were sent`);
  attached[Symbol.dispose]();
  await assert.rejects(sending);
  while (record.killed.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(record.killed, ["SIGKILL"]);
});

Deno.test("exec: refusals are ordinary problems", async () => {
  const { server } = await execServer();
  await using _ = server;
  const status = async (path: string) => {
    const response = await fetch(`${server.base}${API}${path}`);
    await response.body?.cancel();
    return response.status;
  };
  assert.equal(await status("/wbe/exec?command=ls"), 404);
  assert.equal(await status("/web/exec"), 400);
  assert.equal(await status("/web/exec?command=ls&env=x"), 400);
  assert.equal(await status("/web/exec?command=ls"), 400);
  assert.equal(await status("/web/exec?shell=sh"), 400);
  assert.equal(await status("/web/exec?command=ls&tty=1&shell=sh"), 400);
  assert.equal(await status("/web/exec?command=ls&tty=1&columns=80"), 400);
  assert.equal(await status("/web/exec?command=ls&tty=1&columns=0&rows=2"), 400);
});

Deno.test("exec: a backend without it is 501", async () => {
  await using server = await startTestServer({ backend: {} });
  const response = await fetch(`${server.base}${API}/web/exec?command=ls`);
  assert.equal(response.status, 501);
  assert.equal((await response.json()).code, "unsupported");
});

Deno.test("exec: without companions an agent is refused before anything is started, and the variable is named", async () => {
  const refused = async (companionVariable?: string) => {
    const started: ExecRequest[] = [];
    await using server = await startTestServer({
      backend: {
        caps: {
          exec: (_, request) => {
            started.push(request);
            return Promise.reject(new Error("nothing is to be started"));
          },
          companionVariable,
        },
        status: () => Promise.resolve(STATUS),
      },
    });
    const query = encodeExecQuery({ command: ["ssh"], agent: true });
    const answer = await fetch(`${server.base}${API}/web/exec?${query}`);
    const { detail, help } = await answer.json();
    assert.deepEqual([answer.status, started], [501, []]);
    return `${detail}; ${help}`;
  };
  assert.match(await refused("SVC_X_REMOTE"), /as SVC_X_REMOTE is off; .*SVC_X_REMOTE=1/);
  assert.match(await refused(), /the fake backend has no companions; leave out --forward-agent/);
});
