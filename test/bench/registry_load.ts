/** A client that costs less than the servers it measures: JSON of a job in, of its outcome out. */

/** PEM texts: whose certificates are trusted, and the client's own. */
export interface Tls {
  ca: string;
  cert?: string;
  key?: string;
}

export type Job =
  | {
    kind: "requests";
    host: string;
    method: string;
    path: string;
    accept?: string;
    /** Credentials, in turn. */
    tokens?: string[];
    tls?: Tls;
    ms: number;
    clients: number;
  }
  /** Whole listings, page by page as their Links lead; each counts as one request. */
  | { kind: "walk"; host: string; path: string; ms: number; clients: number }
  | { kind: "pull"; host: string; tls?: Tls; paths: string[]; clients: number }
  | { kind: "push"; host: string; tls?: Tls; repository: string; mib: number; clients: number };

export interface Outcome {
  requests: number;
  bytes: number;
  ms: number;
  /** Of single requests; 0 where they were not timed. */
  p99: number;
  /** Digests of blobs that are new to the server. */
  pushed?: string[];
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const LARGE = 1024 * 1024;
const IMAGE = "application/vnd.oci.image.manifest.v1+json";

async function writeAll(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

/** Reads answers, dropping their bodies. */
class Reader {
  #buffer = new Uint8Array(LARGE);
  #start = 0;
  #end = 0;

  constructor(private readonly conn: Deno.Conn) {}

  async #more(): Promise<void> {
    if (this.#start === this.#end) this.#start = this.#end = 0;
    const count = await this.conn.read(this.#buffer.subarray(this.#end));
    if (count === null) throw new Error("the server ended the connection");
    this.#end += count;
  }

  async answer(method: string): Promise<{ status: number; head: string; bytes: number }> {
    let head = "";
    for (let at = -1; at < 0;) {
      if (this.#end > this.#start) {
        const text = decoder.decode(
          this.#buffer.subarray(this.#start, Math.min(this.#end, this.#start + 8192)),
        );
        at = text.indexOf("\r\n\r\n");
        if (at >= 0) {
          head = text.slice(0, at);
          this.#start += at + 4;
          break;
        }
      }
      await this.#more();
    }
    const status = Number(head.slice(9, 12));
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    if (/\r\ntransfer-encoding:/i.test(head)) return { status, head, bytes: await this.#chunks() };
    const bytes = method === "HEAD" ? 0 : length;
    for (let left = bytes; left > 0;) {
      if (this.#start === this.#end) await this.#more();
      const part = Math.min(left, this.#end - this.#start);
      this.#start += part;
      left -= part;
    }
    return { status, head, bytes };
  }

  /** A chunked body: lists of names, which both servers send so when they are long. */
  async #chunks(): Promise<number> {
    let bytes = 0;
    for (;;) {
      let line = "";
      while (!line.endsWith("\r\n")) {
        if (this.#start === this.#end) await this.#more();
        line += String.fromCharCode(this.#buffer[this.#start++]);
      }
      const size = parseInt(line, 16);
      for (let left = size + 2; left > 0;) {
        if (this.#start === this.#end) await this.#more();
        const part = Math.min(left, this.#end - this.#start);
        this.#start += part;
        left -= part;
      }
      if (size === 0) return bytes;
      bytes += size;
    }
  }
}

async function connect(host: string, tls?: Tls): Promise<Deno.TcpConn | Deno.TlsConn> {
  const [hostname, port] = host.split(":");
  const address = { hostname, port: Number(port) };
  if (tls) {
    const { ca, cert, key } = tls;
    const own = cert !== undefined && key !== undefined ? { cert, key } : {};
    return await Deno.connectTls({ ...address, caCerts: [ca], ...own });
  }
  const conn = await Deno.connect(address);
  conn.setNoDelay(true);
  return conn;
}

function percentile(values: number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

async function requests(job: Job & { kind: "requests" }): Promise<Outcome> {
  const accept = job.accept ? `Accept: ${job.accept}\r\n` : "";
  const heads = (job.tokens ?? [undefined]).map((token) =>
    encoder.encode(
      `${job.method} ${job.path} HTTP/1.1\r\nHost: ${job.host}\r\n${accept}` +
        `${token === undefined ? "" : `Authorization: Bearer ${token}\r\n`}\r\n`,
    )
  );
  let next = 0;
  const times: number[] = [];
  let bytes = 0;
  const start = performance.now();
  await Promise.all(Array.from({ length: job.clients }, async () => {
    using conn = await connect(job.host, job.tls);
    const reader = new Reader(conn);
    while (performance.now() - start < job.ms) {
      const sent = performance.now();
      await writeAll(conn, heads[next++ % heads.length]);
      const answer = await reader.answer(job.method);
      if (answer.status !== 200) throw new Error(`${job.method} ${job.path}: ${answer.status}`);
      bytes += answer.bytes;
      times.push(performance.now() - sent);
    }
  }));
  const ms = performance.now() - start;
  return { requests: times.length, bytes, ms, p99: percentile(times, 0.99) };
}

async function walk(job: Job & { kind: "walk" }): Promise<Outcome> {
  const times: number[] = [];
  let bytes = 0;
  const start = performance.now();
  await Promise.all(Array.from({ length: job.clients }, async () => {
    using conn = await connect(job.host);
    const reader = new Reader(conn);
    while (performance.now() - start < job.ms) {
      const sent = performance.now();
      for (let path: string | undefined = job.path; path;) {
        await writeAll(conn, encoder.encode(`GET ${path} HTTP/1.1\r\nHost: ${job.host}\r\n\r\n`));
        const answer = await reader.answer("GET");
        if (answer.status !== 200) throw new Error(`GET ${path}: ${answer.status}`);
        bytes += answer.bytes;
        path = /\r\nlink: *<([^>]+)>/i.exec(answer.head)?.[1];
      }
      times.push(performance.now() - sent);
    }
  }));
  const ms = performance.now() - start;
  return { requests: times.length, bytes, ms, p99: percentile(times, 0.99) };
}

async function pull(job: Job & { kind: "pull" }): Promise<Outcome> {
  let bytes = 0;
  const start = performance.now();
  await Promise.all(Array.from({ length: job.clients }, async () => {
    using conn = await connect(job.host, job.tls);
    const reader = new Reader(conn);
    for (const path of job.paths) {
      const head = `GET ${path} HTTP/1.1\r\nHost: ${job.host}\r\nAccept: ${IMAGE}, */*\r\n\r\n`;
      await writeAll(conn, encoder.encode(head));
      const answer = await reader.answer("GET");
      if (answer.status !== 200) throw new Error(`GET ${path}: ${answer.status}`);
      bytes += answer.bytes;
    }
  }));
  const ms = performance.now() - start;
  return { requests: job.clients * job.paths.length, bytes, ms, p99: 0 };
}

/** A megabyte, and the digest of `mib` of them. */
async function blobOf(mib: number): Promise<{ block: Uint8Array; digest: string }> {
  const { createHash } = await import("node:crypto");
  const block = new Uint8Array(LARGE);
  crypto.getRandomValues(block.subarray(0, 65536));
  const hash = createHash("sha256");
  for (let n = 0; n < mib; n++) hash.update(block);
  return { block, digest: `sha256:${hash.digest("hex")}` };
}

/** Chunked, in pieces of 32 KiB, as Go's clients push. */
async function pushOne(
  { host, tls, repository, mib }: Job & { kind: "push" },
  { block, digest }: { block: Uint8Array; digest: string },
): Promise<void> {
  using conn = await connect(host, tls);
  const reader = new Reader(conn);
  const ask = async (head: string, body: (() => Promise<void>) | undefined, expected: number) => {
    await writeAll(conn, encoder.encode(head + "\r\n"));
    await body?.();
    const answer = await reader.answer("POST");
    if (answer.status !== expected) throw new Error(`${head.split("\r\n")[0]}: ${answer.status}`);
    const location = /\r\nlocation: *([^\r]+)/i.exec(answer.head)?.[1] ?? "";
    return location.replace(/^https?:\/\/[^/]+/, "");
  };
  const common = `HTTP/1.1\r\nHost: ${host}\r\n`;
  const empty = "Content-Length: 0\r\n";
  const place = await ask(
    `POST /v2/${repository}/blobs/uploads/ ${common}${empty}`,
    undefined,
    202,
  );
  const PIECE = 32768;
  const framed = new Uint8Array(LARGE / PIECE * (PIECE + 8));
  for (let n = 0, at = 0; n < LARGE; n += PIECE, at += PIECE + 8) {
    framed.set(encoder.encode("8000\r\n"), at);
    framed.set(block.subarray(n, n + PIECE), at + 6);
    framed.set(encoder.encode("\r\n"), at + PIECE + 6);
  }
  const patch =
    `PATCH ${place} ${common}Transfer-Encoding: chunked\r\nContent-Type: application/octet-stream\r\n`;
  const next = await ask(patch, async () => {
    for (let n = 0; n < mib; n++) await writeAll(conn, framed);
    await writeAll(conn, encoder.encode("0\r\n\r\n"));
  }, 202);
  const mark = next.includes("?") ? "&" : "?";
  await ask(`PUT ${next}${mark}digest=${digest} ${common}${empty}`, undefined, 201);
}

async function push(job: Job & { kind: "push" }): Promise<Outcome> {
  const blobs = await Promise.all(Array.from({ length: job.clients }, () => blobOf(job.mib)));
  const start = performance.now();
  await Promise.all(blobs.map((blob) => pushOne(job, blob)));
  const ms = performance.now() - start;
  return {
    requests: job.clients * 3,
    bytes: job.clients * job.mib * LARGE,
    ms,
    p99: 0,
    pushed: blobs.map(({ digest }) => digest),
  };
}

/** Runs a job in a process of its own. */
export async function load(job: Job): Promise<Outcome> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-net", "--no-check", import.meta.filename!],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const input = child.stdin.getWriter();
  await input.write(encoder.encode(JSON.stringify(job)));
  await input.close();
  const output = await child.output();
  if (!output.success) throw new Error(`the load ${job.kind} of ${job.host} failed`);
  return JSON.parse(decoder.decode(output.stdout));
}

if (import.meta.main) {
  const job: Job = JSON.parse(await new Response(Deno.stdin.readable).text());
  const runs = { requests, walk, pull, push } as Record<
    Job["kind"],
    (job: Job) => Promise<Outcome>
  >;
  console.log(JSON.stringify(await runs[job.kind](job)));
}
