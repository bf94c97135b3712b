import assert from "node:assert/strict";
import {
  decodeExecFrame,
  encodeExecFrame,
  encodeExecQuery,
  type ExecControl,
  type ExecFrame,
  type ExecQuery,
} from "../../api/exec.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { Problem } from "../../api/problem.ts";
import { SvcError } from "../../base/errors.ts";
import type { TerminalSize } from "../../base/terminal.ts";
import type { ExecRequest, ExecSession } from "../../deploy/backend.ts";
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
      specs: () => Promise.resolve([{ name: "web", shells: record.shells } as DeploySpec]),
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
  const open = async (query: URLSearchParams) => {
    const url = `${server.base.replace("http", "ws")}${API}/web/exec?${query}`;
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    const frames: ExecFrame[] = [];
    const closed = Promise.withResolvers<void>();
    socket.onmessage = ({ data }) => frames.push(decodeExecFrame(new Uint8Array(data)));
    socket.onclose = () => closed.resolve();
    await new Promise((resolve) => socket.onopen = resolve);
    return { socket, frames, closed: closed.promise };
  };
  return { server, record, open };
}

Deno.test("exec: streams, acknowledgement and exit code travel", async () => {
  const { server, record, open } = await execServer();
  await using _ = server;
  const { socket, frames, closed } = await open(
    encodeExecQuery({
      command: ["cat", "-"],
      env: ["A=1"],
      user: "u",
      workingDir: "/w",
      stdin: true,
    }),
  );
  const big = crypto.getRandomValues(new Uint8Array(60_000));
  for (let i = 0; i < 30; i++) socket.send(encodeExecFrame({ channel: "stdin", data: big }));
  socket.send(encodeExecFrame({ channel: "control", control: { eof: true } }));
  await closed;
  const bytes = frames.reduce((n, f) => n + (f.channel === "stdout" ? f.data.length : 0), 0);
  assert.equal(bytes, 30 * 60_000);
  const acks = frames.reduce(
    (n, f) => n + (f.channel === "control" && "ack" in f.control ? f.control.ack : 0),
    0,
  );
  assert.equal(acks, bytes);
  assert(frames.some((f) => f.channel === "stderr" && new TextDecoder().decode(f.data) === "done"));
  assert.deepEqual(frames.at(-1), { channel: "control", control: { exit: 7 } });
  assert.deepEqual(record.request, {
    command: ["cat", "-"],
    env: { A: "1" },
    user: "u",
    workingDir: "/w",
    instance: undefined,
    tty: false,
  });
  assert.deepEqual(record.killed, []);
});

Deno.test("exec: without stdin its end comes at once", async () => {
  const { server, open } = await execServer();
  await using _ = server;
  const { frames, closed } = await open(encodeExecQuery({ command: ["cat"] }));
  await closed;
  assert.deepEqual(frames.at(-1), { channel: "control", control: { exit: 7 } });
});

Deno.test("exec: a client that goes away ends the command", async () => {
  const { server, record, open } = await execServer();
  await using _ = server;
  const { socket } = await open(encodeExecQuery({ command: ["cat"], stdin: true }));
  socket.close();
  while (record.killed.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(record.killed, ["SIGKILL"]);
});

Deno.test("exec: a frame that is none, and a server that shuts down, are told", async () => {
  const { server, record, open } = await execServer();
  await using _ = server;
  const bad = await open(encodeExecQuery({ command: ["cat"], stdin: true }));
  bad.socket.send(new Uint8Array([9, 1]));
  await bad.closed;
  const last = bad.frames.at(-1) as { control: { error: { code: string } } };
  assert.equal(last.control.error.code, "argument_invalid");
  const cut = await open(encodeExecQuery({ command: ["cat"], stdin: true }));
  server.lifecycle.drain();
  await cut.closed;
  const told = cut.frames.at(-1) as { control: { error: { code: string } } };
  assert.equal(told.control.error.code, "unavailable");
  assert.equal(await server.lifecycle.idle(5000), true);
  assert.equal(record.killed.length, 2);
});

Deno.test("exec: a terminal has its size from the start and is told of others", async () => {
  const { server, record, open } = await execServer();
  await using _ = server;
  const size = { columns: 101, rows: 37 };
  const tty = await open(encodeExecQuery({ command: ["cat"], tty: true, stdin: true, size }));
  const resize = (to: unknown) =>
    tty.socket.send(encodeExecFrame({
      channel: "control",
      control: { resize: to } as ExecControl,
    }));
  resize({ columns: 200, rows: 50 });
  tty.socket.send(encodeExecFrame({ channel: "control", control: { eof: true } }));
  await tty.closed;
  assert.deepEqual(tty.frames[0], { channel: "control", control: { started: true } });
  assert.deepEqual(tty.frames.at(-1), { channel: "control", control: { exit: 7 } });
  assert.deepEqual([record.request?.size, record.sizes], [size, [{ columns: 200, rows: 50 }]]);
  for (const bad of [null, {}, { columns: 0, rows: 1 }, { columns: 1, rows: 1e9 }, "1x1"]) {
    const session = await open(encodeExecQuery({ command: ["cat"], tty: true, stdin: true }));
    session.socket.send(encodeExecFrame({
      channel: "control",
      control: { resize: bad } as unknown as ExecControl,
    }));
    await session.closed;
    const last = session.frames.at(-1) as { control: { error: { code: string } } };
    assert.equal(last.control.error.code, "argument_invalid", JSON.stringify(bad));
  }
  const plain = await open(encodeExecQuery({ command: ["cat"], stdin: true }));
  plain.socket.send(encodeExecFrame({ channel: "control", control: { resize: size } }));
  await plain.closed;
  const told = plain.frames.at(-1) as { control: { error: { code: string } } };
  assert.equal(told.control.error.code, "argument_invalid");
  assert.equal(record.sizes.length, 1);
});

Deno.test("exec: without a command the first shell that is there", async () => {
  const { server, record, open } = await execServer();
  await using _ = server;
  const tried = async (shells?: string[]) => {
    record.requests.length = 0;
    const { frames, closed } = await open(encodeExecQuery({ command: [], shells, tty: true }));
    await closed;
    const { control } = frames.at(-1) as { control: { exit?: number; error?: Problem } };
    return [record.requests.map(({ command }) => command.join("|")), control] as const;
  };
  assert.deepEqual(await tried(), [["bash", "ash"], { exit: 7 }]);
  assert.deepEqual(await tried(["zsh -l", "'my shell' -x"]), [
    ["zsh|-l", "my shell|-x"],
    { exit: 7 },
  ]);
  record.shells = ["fish", "ash --own"];
  assert.deepEqual(await tried(["'my shell'"]), [["fish", "ash|--own"], { exit: 7 }]);
  record.shells = ["'"];
  const [none, { error }] = await tried();
  assert.deepEqual([none, error?.code], [[], "argument_invalid"]);
});

Deno.test("exec: why a command cannot run, or no shell is there, is told on the socket", async () => {
  const { server, open } = await execServer();
  await using _ = server;
  PROGRAMS.splice(PROGRAMS.indexOf("ash"), 1);
  try {
    const problem = async (query: ExecQuery) => {
      const { frames, closed } = await open(encodeExecQuery(query));
      await closed;
      assert.equal(frames.length, 1);
      return (frames[0] as { control: { error: Problem } }).control.error;
    };
    const stopped = await problem({ command: ["stopped"] });
    assert.deepEqual([stopped.code, stopped.detail], ["conflict", "Cannot run it: it is stopped"]);
    const shell = await problem({ command: [], tty: true, shells: ["zsh -l"] });
    assert.deepEqual([shell.code, shell.detail], [
      "not_found",
      "Cannot open a shell in web: it has none of zsh, bash, ash, sh",
    ]);
    assert.match(shell.help, /svc exec -it NAME COMMAND/);
  } finally {
    PROGRAMS.push("ash");
  }
});

Deno.test("exec: a client that sends without waiting for the command is stopped", async () => {
  const { server, record, open } = await execServer();
  await using _ = server;
  const { socket, frames, closed } = await open(
    encodeExecQuery({ command: ["stuck"], stdin: true }),
  );
  const data = new Uint8Array(1 << 20);
  for (let sent = 0; sent < 8; sent++) {
    socket.send(encodeExecFrame({ channel: "stdin", data }));
  }
  socket.send(encodeExecFrame({ channel: "stdin", data: new Uint8Array(1) }));
  await closed;
  const last = frames.at(-1) as { control: { error: { code: string } } };
  assert.equal(last.control.error.code, "too_large");
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
