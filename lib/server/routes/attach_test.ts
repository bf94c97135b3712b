import assert from "node:assert/strict";
import { type AttachEnd, type AttachQuery, encodeAttachQuery } from "../../api/attach.ts";
import { SvcError } from "../../base/errors.ts";
import type { TerminalSize } from "../../base/terminal.ts";
import { attach } from "../../client/attached/attach.ts";
import { createClient } from "../../client/client.ts";
import type { AttachSession, InstanceOptions } from "../../deploy/caps.ts";
import { LineReader, writeLine } from "../../wire/lines.ts";
import { readAll } from "../../wire/testing.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { startTestServer, STATUS } from "../testing.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (data: Uint8Array) => new TextDecoder().decode(data);

/** A main process that a test drives. */
class Main {
  readonly out = new TransformStream<Uint8Array, Uint8Array>();
  readonly err = new TransformStream<Uint8Array, Uint8Array>();
  readonly exit = Promise.withResolvers<number | undefined>();
  readonly detached = Promise.withResolvers<void>();
  readonly asked: InstanceOptions[] = [];
  readonly sizes: TerminalSize[] = [];
  input = "";
  inputEnded = false;
  readonly output = this.out.writable.getWriter();

  session(kind: "plain" | "input" | "tty"): AttachSession {
    const stdin = new WritableStream<Uint8Array>({
      write: async (chunk) => {
        // Slower than a client that leaves.
        await new Promise((resolve) => setTimeout(resolve, 20));
        this.input += text(chunk);
      },
      close: () => void (this.inputEnded = true),
    });
    return {
      ...kind !== "plain" && { stdin },
      ...kind === "tty" && { resize: (size: TerminalSize) => void this.sizes.push(size) },
      stdout: this.out.readable,
      stderr: this.err.readable,
      exit: this.exit.promise,
      detach: () => {
        this.detached.resolve();
        this.end(undefined);
      },
    };
  }

  end(code: number | undefined): void {
    this.output.close().catch(() => {});
    this.err.writable.close().catch(() => {});
    this.exit.resolve(code);
  }
}

async function attachServer(kind: "plain" | "input" | "tty", before?: Promise<void>) {
  const main = new Main();
  const server = await startTestServer({
    backend: {
      status: (name) => Promise.resolve(name === "web" ? STATUS : undefined),
      caps: {
        attach: async (_name, options = {}) => {
          main.asked.push(options);
          if (options.instance === "web-9") throw new SvcError("conflict", "Cannot attach: no");
          await before;
          return main.session(kind);
        },
      },
    },
  });
  const client = createClient({ server: server.base });
  const open = async (query: AttachQuery) => {
    const kinds = ["command", "stdio", "stderr"] as const;
    const opened = kinds.map(() => Promise.withResolvers<YamuxStream>());
    let fields: unknown;
    const streams = Promise.all(opened.map(({ promise }) => promise));
    const attached = await attach(client, "/deployments/web/attach", {
      ...{ attempt: "test", begun: streams, query: encodeAttachQuery(query) },
      takes: Object.fromEntries(kinds.map((kind, index) => [
        kind,
        (stream: YamuxStream, more: unknown) => {
          if (kind === "command") fields = more;
          opened[index].resolve(stream);
        },
      ])),
    });
    const [command, stdio, stderr] = await streams;
    const end = () => new LineReader(command).line<AttachEnd>();
    return { attached, command, stdio, stderr, end, fields };
  };
  return { server, main, open };
}

Deno.test("attach: streams both ways, the end of input, the exit code", async () => {
  const { server, main, open } = await attachServer("input");
  await using _ = server;
  const { stdio, end, fields, attached } = await open({ stdin: true, instance: "web-1" });
  assert.deepEqual(fields, { tty: false, stdin: true });
  assert.equal(main.asked[0].instance, "web-1");
  await stdio.write(bytes("typed"));
  await stdio.closeWrite();
  while (!main.inputEnded) await new Promise((resolve) => setTimeout(resolve, 5));
  await main.output.write(bytes("printed"));
  main.end(7);
  assert.equal(text(await readAll(stdio)), "printed");
  assert.deepEqual(await end(), { exit: 7 });
  assert.equal(await attached.closed, undefined);
  assert.equal(main.input, "typed");
});

Deno.test("attach: a client that goes away, well or badly, detaches and ends no input", async () => {
  for (const leave of ["close", "drop"] as const) {
    const { server, main, open } = await attachServer("input");
    await using _ = server;
    const { stdio, attached } = await open({ stdin: true });
    await stdio.write(bytes("typed"));
    if (leave === "drop") {
      while (main.input === "") await new Promise((done) => setTimeout(done, 5));
    }
    if (leave === "close") await attached.close();
    else attached.drop("gone");
    await main.detached.promise;
    assert.equal(await server.lifecycle.idle(60_000), true);
    assert.deepEqual([main.input, main.inputEnded], ["typed", false], leave);
  }
});

Deno.test("attach: without input its stream is left alone; a process that takes none is told", async () => {
  const left = await attachServer("input");
  await using _left = left.server;
  const without = await left.open({});
  assert.deepEqual(without.fields, { tty: false, stdin: false });
  await without.stdio.closeWrite();
  left.main.end(0);
  assert.deepEqual(await without.end(), { exit: 0 });
  assert.equal(left.main.inputEnded, false);
  const plain = await attachServer("plain");
  await using _plain = plain.server;
  assert.deepEqual((await plain.open({ stdin: true })).fields, { tty: false, stdin: false });
});

Deno.test("attach: a terminal gets its size at the start and later; elsewhere a size is an error", async () => {
  const { server, main, open } = await attachServer("tty");
  await using _ = server;
  const size = { columns: 101, rows: 37 };
  const { command, fields } = await open({ stdin: true, size });
  assert.deepEqual(fields, { tty: true, stdin: true });
  await writeLine(command, { resize: { columns: 9, rows: 8 } });
  while (main.sizes.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(main.sizes, [size, { columns: 9, rows: 8 }]);
  const plain = await attachServer("input");
  await using _plain = plain.server;
  const none = await plain.open({ size });
  await writeLine(none.command, { resize: size });
  assert.equal((await none.attached.closed as SvcError).code, "argument_invalid");
  await plain.main.detached.promise;
});

Deno.test("attach: it waits for the start, tells why it cannot be, and a detach by the engine", async () => {
  const start = Promise.withResolvers<void>();
  const { server, main, open } = await attachServer("plain", start.promise);
  await using _ = server;
  await assert.rejects(open({ instance: "web-9" }), {
    code: "conflict",
    message: "Cannot attach: no",
  });
  const waiting = open({});
  while (main.asked.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  start.resolve();
  const { end } = await waiting;
  main.end(undefined);
  assert.deepEqual(await end(), {});
});

Deno.test("attach: a client that leaves while it waits ends the wait; a server that stops says so", async () => {
  const { server, main, open } = await attachServer("plain", new Promise(() => {}));
  await using _ = server;
  const waiting = open({});
  while (main.asked.length < 1) await new Promise((resolve) => setTimeout(resolve, 5));
  server.lifecycle.drain();
  await assert.rejects(waiting, { code: "unavailable" });
  assert.equal(main.asked[0].signal?.aborted, true);
});

Deno.test("attach: refusals are ordinary problems", async () => {
  const { server } = await attachServer("plain");
  await using _ = server;
  const status = async (base: string, path: string) => {
    const response = await fetch(`${base}/.svc/v1/deployments${path}`);
    await response.body?.cancel();
    return response.status;
  };
  assert.equal(await status(server.base, "/wbe/attach"), 404);
  assert.equal(await status(server.base, "/web/attach"), 400);
  assert.equal(await status(server.base, "/web/attach?columns=80"), 400);
  await using plain = await startTestServer({});
  assert.equal(await status(plain.base, "/web/attach"), 501);
});
