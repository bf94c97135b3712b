import assert from "node:assert/strict";
import {
  decodeExecFrame,
  encodeExecFrame,
  encodeExecQuery,
  type ExecFrame,
} from "../../api/exec.ts";
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

async function execServer() {
  const record = { killed: [] as string[], request: undefined as ExecRequest | undefined };
  const server = await startTestServer({
    backend: {
      status: (name) => Promise.resolve(name === "web" ? STATUS : undefined),
      caps: {
        exec: (_name, request) => {
          record.request = request;
          return Promise.resolve(echoSession(record));
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
});

Deno.test("exec: a backend without it is 501", async () => {
  await using server = await startTestServer({ backend: {} });
  const response = await fetch(`${server.base}${API}/web/exec?command=ls`);
  assert.equal(response.status, 501);
  assert.equal((await response.json()).code, "unsupported");
});
