/** `svc build` against a server with the engine on runc, and a folder that is built. */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import type { BuildEvent } from "../../lib/api/build.ts";
import { runCli } from "../../cli.ts";
import type { Io } from "../../lib/base/terminal.ts";
import { startTestServer, type TestOptions } from "../../lib/server/testing.ts";
import { requireTools } from "../e2e/harness.ts";
import { layerEntries } from "./builder.ts";
import { type EngineFixture, openNewEngine } from "./engine_fixture.ts";

const { ignore } = requireTools({ root: true, commands: ["runc"], files: ["/bin/busybox"] });

export interface Built {
  code: number;
  events: BuildEvent[];
  stderr: string;
  /** Bytes of the context that came over the wire, listing included. */
  received: number;
  /** Bytes that the server's connections took in, whatever they were. */
  wire: number;
}

export interface Fixture extends AsyncDisposable {
  engine: EngineFixture;
  folder: string;
  /** The server itself, past the counting relay. */
  base: string;
  /** What a caller made by hand sends as its Dockerfile. */
  dockerfile: string;
  write(files: Record<string, string | Uint8Array>): Promise<void>;
  svc(args: string[], env?: Record<string, string>): Promise<Built>;
}

/** Relays connections and counts what clients send. */
function counting(port: number) {
  let bytes = 0;
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accepting = (async () => {
    for await (const client of listener) {
      const server = await Deno.connect({ hostname: "127.0.0.1", port });
      const count = new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          bytes += chunk.length;
          controller.enqueue(chunk);
        },
      });
      client.readable.pipeThrough(count).pipeTo(server.writable).catch(() => {/* closed */});
      server.readable.pipeTo(client.writable).catch(() => {/* closed */});
    }
  })();
  return {
    url: `http://127.0.0.1:${listener.addr.port}`,
    take: () => {
      const taken = bytes;
      bytes = 0;
      return taken;
    },
    close: async () => {
      listener.close();
      await accepting;
    },
  };
}

export async function open(deps: TestOptions["deps"] = {}): Promise<Fixture> {
  const engine = await openNewEngine();
  const server = await startTestServer({
    deps: { builder: () => Promise.resolve(engine.builder), ...deps },
  });
  const relay = counting(Number(new URL(server.base).port));
  const folder = await Deno.makeTempDir({ prefix: "svc-attached-" });
  return {
    engine,
    folder,
    base: server.base,
    dockerfile: "",
    async write(files) {
      for (const [path, data] of Object.entries(files)) {
        await Deno.mkdir(dirname(`${folder}/${path}`), { recursive: true });
        if (typeof data === "string") await Deno.writeTextFile(`${folder}/${path}`, data);
        else await Deno.writeFile(`${folder}/${path}`, data);
      }
    },
    async svc(args, env = {}) {
      const texts = { stdout: "", stderr: "" };
      const output = (name: "stdout" | "stderr") => ({
        write: (data: string | Uint8Array) => {
          texts[name] += typeof data === "string" ? data : new TextDecoder().decode(data);
          return Promise.resolve();
        },
        isTerminal: false,
        size: () => undefined,
      });
      const io: Io = {
        stdin: { readable: new Blob([]).stream(), isTerminal: false },
        stdout: output("stdout"),
        stderr: output("stderr"),
        signal: new AbortController().signal,
      };
      relay.take();
      const code = await runCli(["build", "--progress", "json", "-t", "result", ...args, folder], {
        env: { SVC_SERVER: relay.url, ...env },
        io,
        serve: () => Promise.reject(new Error("no server here")),
      });
      const events = texts.stdout.split("\n").filter((line) => line !== "")
        .map((line) => JSON.parse(line) as BuildEvent);
      const received = events.flatMap((event) =>
        event.type === "progress" && event.id === "context" ? event.current : []
      );
      return {
        code,
        events,
        stderr: texts.stderr,
        received: Math.max(0, ...received),
        wire: relay.take(),
      };
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await relay.close();
      await engine[Symbol.asyncDispose]();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

export const test = (
  name: string,
  fn: (at: Fixture) => Promise<void>,
  deps?: TestOptions["deps"],
) =>
  Deno.test({
    name: `attached build: ${name}`,
    ignore,
    // Connections that the relay carries end a moment after the build.
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async () => {
      await using at = await open(deps);
      await fn(at);
      await at.engine.assertClean();
    },
  });

export function good(built: Built): Built {
  assert.equal(built.code, 0, built.stderr + JSON.stringify(built.events));
  return built;
}

export const ran = (built: Built) => {
  const last = good(built).events.at(-1)!;
  assert.equal(last.type, "result");
  return (last as Extract<BuildEvent, { type: "result" }>).result.ran;
};

export const outputOf = (built: Built) =>
  built.events.flatMap((event) => event.type === "output" ? event.text : []).join("");

export async function topLayer(at: Fixture) {
  const { manifest } = await at.engine.images.image("result");
  return layerEntries(at.engine.images, manifest.layers.at(-1)!.digest);
}
