import assert from "node:assert/strict";
import { svcFake } from "../../test/fixtures/cli.ts";
import { decodeExecFrame, decodeExecQuery, encodeExecFrame, type ExecFrame } from "../api/exec.ts";
import { SvcError } from "../base/errors.ts";
import { interruption } from "../base/terminal.ts";

type Session = (send: (frame: ExecFrame) => void, socket: WebSocket) => (frame: ExecFrame) => void;

/** A server whose sessions are one function; the query of the last one is kept. */
function execServer(session: Session) {
  const seen: { query?: ReturnType<typeof decodeExecQuery> } = {};
  const handler = (request: Request, url: URL) => {
    if (request.headers.get("upgrade") !== "websocket") {
      throw new SvcError("internal", "no upgrade");
    }
    seen.query = decodeExecQuery(url.searchParams);
    const { socket, response } = Deno.upgradeWebSocket(request);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      const receive = session((frame) => socket.send(encodeExecFrame(frame)), socket);
      socket.onmessage = ({ data }) => receive(decodeExecFrame(new Uint8Array(data)));
    };
    return response;
  };
  return { seen, handler };
}

const bytes = (text: string) => new TextEncoder().encode(text);
const exit = (code: number): ExecFrame => ({ channel: "control", control: { exit: code } });

Deno.test("exec: streams, flags passed through, the command's exit code", async () => {
  const { seen, handler } = execServer((send) => {
    send({ channel: "stdout", data: bytes("out") });
    send({ channel: "stderr", data: bytes("err") });
    send(exit(7));
    return () => {};
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
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const { seen, handler } = execServer((send) => (frame) => {
    if (frame.channel === "stdin") {
      parts.push(frame.data);
      send({ channel: "control", control: { ack: frame.data.length } });
    } else send(exit(0));
  });
  const { code } = await svcFake(["exec", "-i", "web", "cat"], { handler, stdin: input });
  assert.equal(code, 0);
  assert.equal(seen.query?.stdin, true);
  assert.deepEqual(await new Blob(parts).bytes(), input);
});

Deno.test("exec -i: a command that ends does not wait for standard input", async () => {
  const { handler } = execServer((send) => {
    send(exit(3));
    return () => {};
  });
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

  const reported = execServer((send) => {
    const error = {
      title: "",
      status: 500,
      code: "internal" as const,
      detail: "Cannot go on",
      help: "",
    };
    send({ channel: "stdout", data: bytes("begun\n") });
    send({ channel: "control", control: { error } });
    return () => {};
  });
  const failed = await svcFake(["exec", "web", "ls"], { handler: reported.handler });
  assert.deepEqual([failed.code, failed.stdout, failed.stderr], [
    125,
    "begun\n",
    "svc: Cannot go on\n",
  ]);

  const broken = execServer((_, socket) => {
    socket.close();
    return () => {};
  });
  const cut = await svcFake(["exec", "web", "ls"], { handler: broken.handler });
  assert.equal(cut.code, 125);
  assert.match(cut.stderr, /Cannot tell how the command in web ended/);
});

Deno.test("exec: an interrupt closes the session and ends with 130", async () => {
  const controller = new AbortController();
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  const { handler } = execServer((_, socket) => {
    socket.onclose = () => resolve();
    controller.abort(interruption("SIGINT"));
    return () => {};
  });
  const { code, stderr } = await svcFake(["exec", "web", "sleep", "9"], {
    handler,
    signal: controller.signal,
  });
  assert.deepEqual([code, stderr], [130, ""]);
  await closed;
});

Deno.test("exec: a terminal is refused by name in this build", async () => {
  const { code, stderr, requests } = await svcFake(["exec", "-it", "web", "sh"], {
    handler: () => new Response(),
  });
  assert.equal(code, 1);
  assert.match(stderr, /^svc: Cannot use -t: a terminal for exec is not in this build yet\n/);
  assert.deepEqual(requests, []);
});
