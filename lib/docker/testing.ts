/** For tests: a daemon that answers what a script says, on a unix socket of its own. */
import { join } from "node:path";
import { DockerClient, type DockerClientOptions } from "./client.ts";
import { dockerEndpoint } from "./endpoint.ts";

export interface ScriptedCall {
  /** "GET /v1.41/containers/json". */
  line: string;
  headers: Headers;
  body: Uint8Array;
  /** Further bytes of the connection: what a caller sends after an upgrade. */
  read(): Promise<Uint8Array | undefined>;
  /** Writes bytes as they are. */
  write(text: string | Uint8Array): Promise<void>;
  /** Answers with JSON. */
  json(value: unknown, status?: number): Promise<void>;
}

export interface ScriptedDaemon extends AsyncDisposable {
  client: DockerClient;
  /** The request lines so far. */
  lines: string[];
}

const VERSION = { Version: "20.10.24", ApiVersion: "1.41", MinAPIVersion: "1.12", Os: "linux" };

/**
 * `answer` gets every call but those of `/version` where `version` is given or absent. Its connection is closed
 * when it is done.
 */
export async function scriptedDaemon(
  answer: (call: ScriptedCall) => Promise<void>,
  { version = VERSION, ...options }:
    & { version?: unknown }
    & Partial<Omit<DockerClientOptions, "endpoint">> = {},
): Promise<ScriptedDaemon> {
  const folder = await Deno.makeTempDir({ prefix: "svc-scripted-" });
  const path = join(folder, "docker.sock");
  const listener = Deno.listen({ transport: "unix", path });
  const lines: string[] = [];
  const serving = (async () => {
    for await (const conn of listener) {
      const call = await readCall(conn);
      if (!call) continue;
      lines.push(call.line);
      const done = call.line === "GET /version" ? call.json(version) : answer(call);
      done.catch(() => {/* the caller went away */}).finally(() => conn.close());
    }
  })();
  const client = new DockerClient({
    endpoint: dockerEndpoint({ host: `unix://${path}` }),
    ...options,
  });
  return {
    client,
    lines,
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      listener.close();
      await serving.catch(() => {/* closed */});
      await Deno.remove(folder, { recursive: true });
    },
  };
}

async function readCall(conn: Deno.Conn): Promise<ScriptedCall | undefined> {
  const encoder = new TextEncoder();
  const decoder = new TextDecoder("latin1");
  let got = new Uint8Array();
  const more = async () => {
    const buffer = new Uint8Array(64 * 1024);
    const size = await conn.read(buffer).catch(() => null);
    if (size === null) return false;
    const both = new Uint8Array(got.length + size);
    both.set(got);
    both.set(buffer.subarray(0, size), got.length);
    got = both;
    return true;
  };
  let end: number;
  while ((end = decoder.decode(got).indexOf("\r\n\r\n")) < 0) {
    if (!await more()) return void conn.close();
  }
  const [first, ...fields] = decoder.decode(got.subarray(0, end)).split("\r\n");
  const headers = new Headers(
    fields.map((field) => field.split(/:\s*/, 2) as [string, string]),
  );
  got = got.slice(end + 4);
  const length = Number(headers.get("content-length") ?? 0);
  while (got.length < length) if (!await more()) break;
  const body = got.slice(0, length);
  got = got.slice(length);
  const write = async (text: string | Uint8Array) => {
    const bytes = typeof text === "string" ? encoder.encode(text) : text;
    for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
  };
  return {
    line: first.replace(/ HTTP\/1\.1$/, ""),
    headers,
    body,
    async read() {
      if (got.length === 0 && !await more()) return undefined;
      const bytes = got;
      got = new Uint8Array();
      return bytes;
    },
    write,
    json: (value, status = 200) => {
      const text = JSON.stringify(value);
      const size = encoder.encode(text).length;
      return write(`HTTP/1.1 ${status} X\r\ncontent-length: ${size}\r\n\r\n${text}`);
    },
  };
}
