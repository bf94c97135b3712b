import assert from "node:assert/strict";
import { FakeKeyboard, FakeSignals, svcFake } from "../../test/fixtures/cli.ts";
import type { AttachFields } from "../api/attach.ts";
import { SvcError } from "../base/errors.ts";
import type { Attached } from "../wire/attached/session.ts";
import { upgradeAttached } from "../wire/attached/testing.ts";
import { writeLine } from "../wire/lines.ts";
import { readAll } from "../wire/testing.ts";
import type { YamuxStream } from "../wire/yamux/stream.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

interface Running {
  attached: Attached;
  stdio: YamuxStream;
  out(text: string): Promise<void>;
  /** Absent: the server detaches. */
  exit(code?: number): Promise<void>;
}

/** A server with one deployment; `signal` is called with what its signal route gets. */
function attachServer(
  fields: AttachFields,
  run: (running: Running) => void | Promise<void>,
  signal: (query: URLSearchParams) => void = () => {},
) {
  const instances = [{ id: "web-0", state: "exited" }, { id: "web-1", state: "running" }];
  const seen: { query?: string } = {};
  const handler = (request: Request, url: URL) => {
    if (url.pathname.endsWith("/deployments/web")) return Response.json({ name: "web", instances });
    if (url.pathname.endsWith("/signal")) {
      signal(url.searchParams);
      return new Response(null, { status: 204 });
    }
    if (request.headers.get("upgrade") !== "websocket") throw new SvcError("internal", "none");
    seen.query = url.search;
    const { session: attached, response } = upgradeAttached(request);
    attached.ready.then(() => {
      const command = attached.open("command", { ...fields });
      const [stdio, stderr] = (["stdio", "stderr"] as const).map((kind) => attached.open(kind));
      return run({
        ...{ attached, stdio },
        out: (text) => stdio.write(bytes(text)),
        async exit(exit) {
          await Promise.all([stdio.closeWrite(), stderr.closeWrite()]);
          await writeLine(command, exit === undefined ? {} : { exit });
          await attached.close();
        },
      });
    }).catch(() => {/* the client went away */});
    return response;
  };
  return { seen, handler };
}

const INPUT = { tty: false, stdin: true };

Deno.test("attach: input to its end, output, the process's exit code", async () => {
  let read = "";
  const { seen, handler } = attachServer(INPUT, async ({ stdio, out, exit }) => {
    read = new TextDecoder().decode(await readAll(stdio));
    await out("printed");
    await exit(7);
  });
  const { code, stdout, stderr } = await svcFake(["attach", "web"], { handler, stdin: "typed" });
  assert.deepEqual([code, stdout, stderr, read], [7, "printed", "", "typed"]);
  assert.equal(seen.query, "?instance=web-1&stdin=1");
});

Deno.test("attach: --no-stdin asks for none, and a process that takes none gets none", async () => {
  const plain = attachServer({ tty: false, stdin: false }, ({ exit }) => exit(0));
  const args = ["attach", "--no-stdin", "--no-sig-proxy", "web"];
  const { code } = await svcFake(args, { handler: plain.handler, stdin: "typed" });
  assert.deepEqual([code, plain.seen.query], [0, ""]);
  const stdin = new ReadableStream<Uint8Array>(); // never a byte, never an end
  const taken = await svcFake(["attach", "web"], { handler: plain.handler, stdin });
  assert.deepEqual([taken.code, plain.seen.query], [0, "?instance=web-1&stdin=1"]);
});

Deno.test("attach: detached by the server, or by a connection that breaks", async () => {
  const ended = attachServer(INPUT, ({ exit }) => exit());
  const over = await svcFake(["attach", "web"], { handler: ended.handler });
  assert.deepEqual([over.code, over.stderr], [0, "svc: detached from web\n"]);
  const broken = attachServer(INPUT, async ({ attached, out }) => {
    await out("on");
    attached.drop("cut");
  });
  const cut = await svcFake(["attach", "web"], {
    handler: broken.handler,
    stdin: new ReadableStream<Uint8Array>(),
  });
  assert.equal(cut.code, 125);
  assert.match(cut.stderr, /Cannot stay attached to web: [^]*the process runs on/);
});

Deno.test("attach on a terminal: raw where the process has one, keys detach and end no input", async () => {
  for (const tty of [true, false]) {
    const keyboard = new FakeKeyboard({ columns: 101, rows: 37 });
    const typed = Promise.withResolvers<string>();
    const { seen, handler } = attachServer({ tty, stdin: true }, async ({ stdio, out }) => {
      let read = "";
      await out("$ ");
      try {
        for (let data = await stdio.read(); data; data = await stdio.read()) {
          read += new TextDecoder().decode(data);
          if (read === "ls\x10") await out("seen");
        }
        read += " and its end";
      } finally {
        typed.resolve(read);
      }
    });
    let keys!: ReadableStreamDefaultController<Uint8Array>;
    const stdin = new ReadableStream<Uint8Array>({
      start(controller) {
        keys = controller;
      },
    });
    const { code, stderr } = await svcFake(["attach", "web"], {
      ...{ handler, keyboard, stdin },
      onStdout: (text) => {
        for (const part of text === "$ " ? ["ls\x10", "\x10"] : ["\x11 lost"]) {
          keys.enqueue(bytes(part));
        }
      },
    });
    assert.deepEqual([code, stderr], [0, "svc: detached from web\n"]);
    assert.equal(await typed.promise, "ls\x10");
    assert.deepEqual(keyboard.modes, tty ? ["raw", "restored"] : []);
    assert.match(seen.query!, /columns=101&rows=37/);
  }
});

Deno.test("attach: signals go to the instance, the third interrupt ends it; not on a terminal", async () => {
  const signals = new FakeSignals();
  const sent: string[] = [];
  const got = Promise.withResolvers<void>();
  const { handler } = attachServer(INPUT, async ({ out, exit }) => {
    await out("on");
    await got.promise;
    await exit(3);
  }, (query) => {
    sent.push(`${query.get("signal")} ${query.get("instance")}`);
    if (sent.length === 3) got.resolve();
  });
  const taken: boolean[] = [];
  const { code } = await svcFake(["attach", "web"], {
    ...{ handler, signals, stdin: new ReadableStream<Uint8Array>() },
    onStdout: () => {
      for (const name of ["SIGINT", "SIGHUP", "SIGTERM", "SIGINT"]) taken.push(signals.send(name));
    },
  });
  assert.deepEqual([code, taken, signals.listens], [3, [true, true, true, false], false]);
  assert.deepEqual(sent.sort(), ["SIGHUP web-1", "SIGINT web-1", "SIGTERM web-1"]);
  for (
    const [fields, args] of [[{ tty: true, stdin: true }, []], [INPUT, ["--no-sig-proxy"]]] as const
  ) {
    let took: boolean | undefined;
    const other = attachServer(fields, async ({ out, exit }) => {
      await out("on");
      await exit(0);
    });
    const ended = await svcFake(["attach", ...args, "web"], {
      ...{ handler: other.handler, signals },
      onStdout: () => took = signals.send("SIGINT"),
    });
    assert.deepEqual([ended.code, took], [0, false]);
  }
});

Deno.test("attach: a signal that cannot be sent is told", async () => {
  const signals = new FakeSignals();
  const { handler } = attachServer(INPUT, ({ out }) => out("on"), () => {
    throw new SvcError("denied", "Cannot signal web: no rule allows it");
  });
  const { code, stderr } = await svcFake(["attach", "web"], {
    ...{ handler, signals, stdin: new ReadableStream<Uint8Array>() },
    onStdout: () => void signals.send("SIGINT"),
  });
  assert.equal(code, 125);
  assert.match(stderr, /^svc: Cannot signal web: no rule allows it\n/);
});

Deno.test("attach: keys that are none end it before anything is asked", async () => {
  const { code, requests } = await svcFake(["attach", "--detach-keys", "xx", "web"]);
  assert.deepEqual([code, requests], [2, []]);
});
