/** A registry in memory that can be told to misbehave: what clients of other registries must survive. */
import { digestOf } from "../../lib/oci/digest.ts";

export interface FakeRegistry extends AsyncDisposable {
  /** "127.0.0.1:PORT". */
  host: string;
  blobs: Map<string, Uint8Array<ArrayBuffer>>;
  /** "repository/reference" → manifest. */
  manifests: Map<string, { type: string; bytes: Uint8Array<ArrayBuffer> }>;
  uploads: Map<string, Uint8Array<ArrayBuffer>>;
  /** "METHOD path" and headers of each request, in order. */
  seen: { line: string; headers: Headers }[];
  /** Looked at before each request: an answer here is the answer. */
  intercept?: (request: Request, url: URL) => Promise<Response | undefined> | Response | undefined;
  /** How a blob's bytes go out; default: whole, or the range asked for. */
  serveBlob?: (bytes: Uint8Array<ArrayBuffer>, request: Request) => Response;
}

const empty = (status: number, headers: Record<string, string> = {}) =>
  new Response(null, { status, headers });

/** The bytes a `Range` header asks for, as a 206; without one, all. */
export function answerRange(bytes: Uint8Array<ArrayBuffer>, request: Request): Response {
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.get("range") ?? "");
  if (!range) return new Response(bytes);
  const [start, end] = [Number(range[1]), range[2] ? Number(range[2]) : bytes.length - 1];
  return new Response(bytes.slice(start, end + 1), {
    status: 206,
    headers: { "content-range": `bytes ${start}-${end}/${bytes.length}` },
  });
}

/** A response of the whole length whose connection breaks after `count` bytes. */
export function breakAfter(response: Response, bytes: Uint8Array, count: number): Response {
  let sent = false;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (!sent) {
        sent = true;
        controller.enqueue(bytes.slice(0, count));
        return;
      }
      // Time for what was sent to arrive before the end overtakes it.
      await new Promise((resolve) => setTimeout(resolve, 20));
      controller.close(); // short of the length announced: the connection is cut
    },
  });
  const headers = new Headers(response.headers);
  headers.set("content-length", String(bytes.length));
  return new Response(body, { status: response.status, headers });
}

async function handle(fake: FakeRegistry, request: Request, url: URL): Promise<Response> {
  const blob = /^\/v2\/(.+)\/blobs\/(sha\d+:[0-9a-f]+)$/.exec(url.pathname);
  if (blob) {
    const bytes = fake.blobs.get(blob[2]);
    if (!bytes) return empty(404);
    if (request.method === "HEAD") {
      return empty(200, { "content-length": String(bytes.length) });
    }
    return (fake.serveBlob ?? answerRange)(bytes, request);
  }
  const manifest = /^\/v2\/(.+)\/manifests\/(.+)$/.exec(url.pathname);
  if (manifest) {
    const key = `${manifest[1]}/${manifest[2]}`;
    if (request.method === "PUT") {
      const bytes = new Uint8Array(await request.arrayBuffer());
      const entry = { type: request.headers.get("content-type")!, bytes };
      fake.manifests.set(key, entry);
      fake.manifests.set(`${manifest[1]}/${digestOf(bytes)}`, entry);
      return empty(201, { "docker-content-digest": digestOf(bytes) });
    }
    const found = fake.manifests.get(key);
    if (!found) return empty(404);
    return new Response(found.bytes, {
      headers: { "content-type": found.type, "docker-content-digest": digestOf(found.bytes) },
    });
  }
  const start = /^\/v2\/(.+)\/blobs\/uploads\/$/.exec(url.pathname);
  if (start && request.method === "POST") {
    if (fake.blobs.has(url.searchParams.get("mount") ?? "")) return empty(201);
    const id = crypto.randomUUID();
    fake.uploads.set(id, new Uint8Array());
    return empty(202, { location: `/v2/${start[1]}/blobs/uploads/${id}?state=x` });
  }
  const upload = /^\/v2\/(.+)\/blobs\/uploads\/([\w-]+)$/.exec(url.pathname);
  if (upload) {
    const held = fake.uploads.get(upload[2]);
    if (!held) return empty(404);
    const location = `${url.pathname}?state=${held.length}`;
    const range = `0-${Math.max(0, held.length - 1)}`;
    if (request.method === "GET") return empty(204, { location, range });
    if (request.method === "DELETE") {
      fake.uploads.delete(upload[2]);
      return empty(204);
    }
    const first = request.headers.get("content-range")?.split("-")[0];
    if (first !== undefined && Number(first) !== held.length) return empty(416, { range });
    const body = new Uint8Array(await request.arrayBuffer());
    const grown = new Uint8Array(held.length + body.length);
    grown.set(held);
    grown.set(body, held.length);
    fake.uploads.set(upload[2], grown);
    if (request.method === "PATCH") {
      return empty(202, { location, range: `0-${grown.length - 1}` });
    }
    const digest = url.searchParams.get("digest")!;
    fake.uploads.delete(upload[2]);
    if (digestOf(grown) !== digest) return empty(400);
    fake.blobs.set(digest, grown);
    return empty(201);
  }
  return empty(404);
}

export function startFakeRegistry(): FakeRegistry {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const url = new URL(request.url);
    fake.seen.push({
      line: `${request.method} ${url.pathname}${url.search}`,
      headers: request.headers,
    });
    return await fake.intercept?.(request, url) ?? await handle(fake, request, url);
  });
  const fake: FakeRegistry = {
    host: `127.0.0.1:${server.addr.port}`,
    blobs: new Map(),
    manifests: new Map(),
    uploads: new Map(),
    seen: [],
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
  return fake;
}

/** Of the blob of `size` bytes the first `count` are sent, then nothing more; ranges of it come whole. */
export function stall(registry: FakeRegistry, size: number, count: number) {
  registry.serveBlob = (bytes, request) => {
    if (bytes.length !== size || request.headers.has("range")) return answerRange(bytes, request);
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        if (sent < count) {
          controller.enqueue(bytes.slice(sent, sent + 65536));
          sent += 65536;
          return;
        }
        await new Promise(() => {});
      },
    });
    return new Response(body, { headers: { "content-length": String(size) } });
  };
}
