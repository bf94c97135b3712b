import assert from "node:assert/strict";
import type { BuildEvent, BuildResult } from "../../api/build.ts";
import { ATTACH_PATH, type AttachRequest, CONTEXT_EXPORT } from "../../api/build_session.ts";
import { SvcError } from "../../base/errors.ts";
import type { BuildRequest } from "../../build/builder.ts";
import type { RemoteContext } from "../../build/context/remote.ts";
import { parseIgnore } from "../../build/parse/ignore.ts";
import { type BuildInputs, openBuildSession } from "../../client/build_session.ts";
import { attach } from "../../client/attached/attach.ts";
import { type Client, createClient } from "../../client/client.ts";
import { exportFolder } from "../../client/build_export.ts";
import type { Attached } from "../../wire/attached/session.ts";
import { takesAll } from "../../wire/attached/testing.ts";
import { writeLine } from "../../wire/lines.ts";
import { readAll } from "../../wire/testing.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { collect, startTestServer, type TestOptions } from "../testing.ts";
import { connDuplex } from "../../wire/duplex.ts";

const RESULT: BuildResult = {
  digest: "sha256:1",
  imageId: "sha256:2",
  names: [],
  size: 1,
  ran: 1,
  cached: 0,
  durationMs: 5,
};

type Build = NonNullable<TestOptions["builder"]>;

interface Fixture extends AsyncDisposable {
  folder: string;
  client: Client;
  base: string;
  events(request?: Partial<AttachRequest>, inputs?: Partial<BuildInputs>): Promise<BuildEvent[]>;
}

async function open(builder: Build, deps: TestOptions["deps"] = {}): Promise<Fixture> {
  const folder = await Deno.makeTempDir({ prefix: "svc-attach-" });
  const server = await startTestServer({ builder, deps });
  const client = createClient({ server: server.base });
  return {
    folder,
    client,
    base: server.base,
    async events(request = {}, inputs = {}) {
      const rules = await Deno.readTextFile(`${folder}/.dockerignore`).catch(() => "");
      using context = await exportFolder({
        root: folder,
        ignore: parseIgnore(rules),
        onSkip: () => {},
      });
      const session = await openBuildSession(client, {
        folders: new Map([[CONTEXT_EXPORT, context]]),
        secrets: new Map(),
        agents: new Map(),
        signal: new AbortController().signal,
        ...inputs,
      });
      return await collect(session.build({
        query: "t=app",
        context: {
          kind: "folder",
          identity: context.identity,
          dockerfile: "FROM x",
          ignore: rules,
        },
        ...request,
      }));
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

const remote = (request: BuildRequest): RemoteContext => {
  assert.ok(!(request.context instanceof ReadableStream));
  return request.context;
};

const never = () => new AbortController().signal;

const failure = (events: BuildEvent[]) => {
  const last = events.at(-1)!;
  assert.equal(last.type, "error", JSON.stringify(last));
  return (last as Extract<BuildEvent, { type: "error" }>).error;
};

Deno.test("attach: the builder reads what .dockerignore leaves, and nothing else", async () => {
  const seen: unknown[] = [];
  await using at = await open(async (request, { onEvent }) => {
    const { tree, dockerfile, ignore, received } = remote(request);
    seen.push(request.tags, dockerfile, ignore);
    const entries = (await collect(tree.entries(never()))).flat();
    seen.push(entries.map(({ path, type, size, link }) => [path, type, size, link]));
    const read = async (path: string, size: number) => {
      const text: string[] = [];
      for await (const chunk of tree.read(path, size, never())) {
        text.push(new TextDecoder().decode(chunk));
      }
      return text.join("");
    };
    seen.push(await read("kept/file", 7), await read("empty", 0));
    await assert.rejects(read("secret", 6), SvcError);
    await assert.rejects(read("../outside", 6), SvcError);
    assert.ok(received() > 7);
    onEvent({ type: "start", id: "a", time: "t" });
    return RESULT;
  });
  await Deno.mkdir(`${at.folder}/kept`);
  await Deno.mkdir(`${at.folder}/gone/deep`, { recursive: true });
  await Deno.writeTextFile(`${at.folder}/kept/file`, "content");
  await Deno.writeTextFile(`${at.folder}/gone/deep/file`, "x");
  await Deno.writeTextFile(`${at.folder}/gone/other`, "x");
  await Deno.writeTextFile(`${at.folder}/secret`, "secret");
  await Deno.writeTextFile(`${at.folder}/empty`, "");
  const rules = "secret\ngone\n!gone/deep/file\n.dockerignore\n";
  await Deno.writeTextFile(`${at.folder}/.dockerignore`, rules);
  if (Deno.build.os !== "windows") await Deno.symlink("kept/file", `${at.folder}/link`);
  const events = await at.events();
  assert.deepEqual(events, [
    { type: "start", id: "a", time: "t" },
    { type: "result", result: RESULT },
  ]);
  assert.deepEqual(seen, [
    ["app"],
    "FROM x",
    rules,
    [
      ["empty", "file", 0, undefined],
      ["gone", "directory", 0, undefined],
      ["gone/deep", "directory", 0, undefined],
      ["gone/deep/file", "file", 1, undefined],
      ["kept", "directory", 0, undefined],
      ["kept/file", "file", 7, undefined],
      ...Deno.build.os === "windows" ? [] : [["link", "symlink", 0, "kept/file"]],
    ],
    "content",
    "",
  ]);
});

Deno.test("attach: secrets, agents and archives come from the caller", async () => {
  const agent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const answering = (async () => {
    for await (const conn of agent) {
      const question = new Uint8Array(16);
      const size = await conn.read(question);
      await conn.write(question.subarray(0, size!).reverse());
      conn.close();
    }
  })();
  const seen: unknown[] = [];
  await using at = await open(async ({ context, secrets, ssh }) => {
    assert.ok(context instanceof ReadableStream);
    seen.push(await new Response(context as ReadableStream<Uint8Array<ArrayBuffer>>).text());
    const secret = await secrets!.get("token", never());
    seen.push(new TextDecoder().decode(secret), await secrets!.get("other", never()));
    await assert.rejects(secrets!.get("broken", never()), /no such file/);
    assert.deepEqual([ssh!.has("default"), ssh!.has("other")], [true, false]);
    await using connection = await ssh!.connect("default", never());
    const writer = connection.writable.getWriter();
    await writer.write(new Uint8Array([1, 2, 3]));
    const reader = connection.readable.getReader();
    seen.push([...(await reader.read()).value!], (await reader.read()).done);
    return RESULT;
  });
  const events = await at.events(
    { context: { kind: "tar" }, secrets: ["token", "broken"], ssh: ["default"] },
    {
      archive: new Blob(["an archive"]).stream(),
      secrets: new Map([
        ["token", () => Promise.resolve(new TextEncoder().encode("hush"))],
        ["broken", () => Promise.reject(new SvcError("argument_invalid", "x: no such file"))],
        ["other", () => Promise.resolve(new TextEncoder().encode("not asked for"))],
      ]),
      agents: new Map([[
        "default",
        async () =>
          connDuplex(await Deno.connect({ hostname: "127.0.0.1", port: agent.addr.port })),
      ]]),
    },
  );
  assert.equal(events.at(-1)!.type, "result", JSON.stringify(events));
  agent.close();
  await answering;
  assert.deepEqual(seen, ["an archive", "hush", undefined, [3, 2, 1], true]);
});

Deno.test("attach: what is refused and what fails is the last event", async () => {
  await using at = await open(async (request) => {
    for (const entry of (await collect(remote(request).tree.entries(never()))).flat()) {
      for await (const _chunk of remote(request).tree.read(entry.path, entry.size, never()));
    }
    throw new SvcError("build_failed", "Cannot run false: exit code 1", { detail: { line: 3 } });
  }, { limits: { buildConcurrency: 1, maxBuildContextBytes: 1000 } });
  assert.deepEqual(failure(await at.events()).info, { line: 3 });
  await Deno.writeFile(`${at.folder}/large`, new Uint8Array(1001));
  assert.equal(failure(await at.events()).code, "too_large");
  assert.equal(failure(await at.events({ query: "tag=x" })).code, "argument_invalid");
  assert.equal(
    failure(await at.events({ context: { kind: "git" } as never })).code,
    "argument_invalid",
  );
  assert.equal(failure(await at.events({ ssh: "all" as never })).code, "argument_invalid");
  const plain = await fetch(`${at.base}/.svc/v1/build/attach`);
  assert.equal(plain.status, 400);
  await plain.body?.cancel();
});

Deno.test("attach: a caller that goes away cancels its build, and the next one has its place", async () => {
  const begun = [Promise.withResolvers<AbortSignal>(), Promise.withResolvers<AbortSignal>()];
  let builds = 0;
  await using at = await open(async (_request, { signal }) => {
    begun[builds++].resolve(signal!);
    if (builds === 2) return RESULT;
    await new Promise((_, reject) =>
      signal!.addEventListener("abort", () => reject(signal!.reason))
    );
    return RESULT;
  }, { limits: { buildConcurrency: 1 } });
  const leaving = new AbortController();
  const first = at.events({}, { signal: leaving.signal });
  const signal = await begun[0].promise;
  leaving.abort(new SvcError("cancelled", "interrupted"));
  await assert.rejects(first, /interrupted/);
  const second = await at.events();
  assert.equal(second.at(-1)!.type, "result");
  assert.equal(signal.aborted, true);
});

/** A caller that says what the test wants, and answers what the server asks as `serve` does. */
async function caller(
  client: Client,
  serve: (kind: string, stream: YamuxStream) => unknown,
): Promise<{ control: YamuxStream; session: Attached; socket: WebSocket } & Disposable> {
  let socket: WebSocket;
  const kept: Client = {
    ...client,
    socket: async (...args) => socket = await client.socket(...args),
  };
  const session = await attach(kept, ATTACH_PATH, { attempt: "test", takes: takesAll(serve) });
  const control = session.open("build");
  return { control, session, socket: socket!, [Symbol.dispose]: () => session[Symbol.dispose]() };
}

const REQUEST: AttachRequest = {
  query: "",
  context: { kind: "folder", identity: "i", dockerfile: "FROM x", ignore: "" },
};

Deno.test("attach: rubbish instead of answers fails the build, and the server goes on", async () => {
  await using at = await open(async (request, { signal }) => {
    const { tree } = remote(request);
    for await (const _entry of tree.entries(signal!));
    for await (const _chunk of tree.read("file", 100_000, signal!));
    return RESULT;
  });
  const list = ['["file","f",420,100000,0,"s"]\n', '{"end":1}\n'];
  const garbage = new Uint8Array(4096).fill(0xee);
  const answers: Record<string, (kind: string, stream: YamuxStream) => Promise<void>> = {
    "no list": (_, stream) => stream.closeWrite(),
    "no JSON": (_, stream) => stream.write(garbage).then(() => stream.closeWrite()),
    "a line without end": async (_, stream) => {
      for (;;) await stream.write(garbage);
    },
    "an end that is not": (_, stream) => writeLine(stream, { end: 7 }),
    "null": (_, stream) => writeLine(stream, null),
    "an unknown error": (_, stream) => writeLine(stream, { error: { code: "x" } }),
    "9p rubbish": async (kind, stream) => {
      if (kind === "9p") return await stream.write(garbage);
      for (const line of list) await stream.write(new TextEncoder().encode(line));
    },
    "9p silence and reset": async (kind, stream) => {
      if (kind === "9p") return stream.reset();
      for (const line of list) await stream.write(new TextEncoder().encode(line));
    },
  };
  for (const [what, answer] of Object.entries(answers)) {
    using hostile = await caller(at.client, answer);
    await writeLine(hostile.control, REQUEST);
    const text = new TextDecoder().decode(await readAll(hostile.control));
    const error = failure(text.trim().split("\n").map((line) => JSON.parse(line)));
    assert.ok(["context_invalid", "upstream_failed"].includes(error.code), `${what}: ${text}`);
  }
  const health = await fetch(`${at.base}/healthz`);
  assert.equal(health.status, 200);
  await health.body?.cancel();
});

Deno.test("attach: a caller that is cut off, or speaks no yamux, ends its build alone", async () => {
  const ended: Promise<unknown>[] = [];
  const begun = Promise.withResolvers<void>();
  await using at = await open((request, { signal }) => {
    const work = (async () => {
      begun.resolve();
      for await (const _entry of remote(request).tree.entries(signal!));
      return RESULT;
    })();
    ended.push(work.then(() => "done", (error) => error));
    return work;
  });
  const silent = await caller(at.client, () => {});
  await writeLine(silent.control, REQUEST);
  await begun.promise;
  silent.socket.send(new Uint8Array(64).fill(255));
  assert.ok(await ended[0] instanceof Error);
  silent[Symbol.dispose]();
  const events = await at.events({}, {});
  assert.equal(events.at(-1)!.type, "result");
  using text = await caller(at.client, () => {});
  text.socket.send("text");
  await assert.rejects(readAll(text.control), SvcError);
});
