/** A file behind a URL, for ADD and for named contexts. */
import { createHash } from "node:crypto";
import { SvcError } from "../../base/errors.ts";
import { TarParser } from "../../oci/tar_parser.ts";
import { limited, unpackedTooLarge } from "../../oci/unpack_limit.ts";
import { setTimes } from "../../sys/files.ts";
import type { Material, TreeSource, TreeTools } from "../plan/graph.ts";
import type { OpenTree } from "../inputs.ts";
import { isArchive, plainBytes } from "./archive_kind.ts";
import { CheckedProxy } from "./checked_proxy.ts";
import { Download, withoutCredentials } from "./download.ts";
import { Extractor } from "./extract.ts";
import { fileNameOf, parseChecksum } from "./http_url.ts";

export interface HttpTreeOptions {
  /** Expected digest of the file: "sha256:…" or "sha512:…". */
  checksum?: string;
  /** A tar archive is unpacked and becomes the tree. */
  unpack?: boolean;
  /** How long almost nothing may arrive, in milliseconds. */
  patienceMs?: number;
}

/** A response, and the watch over the rest of its body. */
interface Fetched extends Disposable {
  response: Response;
  download: Download;
}

/** The headers that identify the file that was fetched last, for conditional requests. */
interface Validators {
  etag?: string;
  modified?: string;
  /** Names the file's bytes and time. */
  identity: string;
}

/** Undefined for a damaged note. */
function parseNote(note: string): Validators | undefined {
  try {
    const known: Partial<Validators> | null = JSON.parse(note);
    return typeof known?.identity === "string" ? known as Validators : undefined;
  } catch {
    return undefined;
  }
}

class HttpTree implements TreeSource {
  #fetched: Promise<OpenTree> | undefined;

  constructor(readonly url: string, readonly options: HttpTreeOptions) {
    if (options.checksum !== undefined) parseChecksum(options.checksum, url);
  }

  async identity(tools: TreeTools): Promise<string | undefined> {
    const { checksum } = this.options;
    if (checksum !== undefined) this.#take(checksum);
    if (checksum !== undefined) return `http ${checksum} ${fileNameOf(this.url)}`;
    const note = await tools.notes.get(`http ${this.url}`);
    const known = note === undefined ? undefined : parseNote(note);
    const headers = new Headers();
    if (known?.etag !== undefined) headers.set("if-none-match", known.etag);
    else if (known?.modified !== undefined) headers.set("if-modified-since", known.modified);
    const fetched = await this.#request(headers, tools);
    const { response } = fetched;
    if (known && response.status === 304) {
      await response.body?.cancel();
      fetched[Symbol.dispose]();
      this.#take(known.identity.split(" ")[1]);
      return known.identity;
    }
    this.#fetched = this.#store(fetched, tools);
    await this.#fetched;
    const identity = `http ${this.#digest} ${fileNameOf(this.url)}`;
    const etag = response.headers.get("etag") ?? undefined;
    const modified = response.headers.get("last-modified") ?? undefined;
    if (etag !== undefined || modified !== undefined) {
      const noted: Validators = { etag, modified, identity };
      await tools.notes.put(`http ${this.url}`, JSON.stringify(noted));
    }
    return identity;
  }

  async open(tools: TreeTools): Promise<OpenTree> {
    return await (this.#fetched ??= this.#request(new Headers(), tools)
      .then((fetched) => this.#store(fetched, tools)));
  }

  material(): Material | undefined {
    return this.#digests && { uri: withoutCredentials(this.url), digest: this.#digests };
  }

  #digest = "";
  #digests: Record<string, string> | undefined;

  /** Stores a digest given as "algorithm:hex". */
  #take(digest: string): void {
    const [algorithm, hex] = digest.split(":");
    this.#digests = { [algorithm]: hex };
  }

  async #request(headers: Headers, tools: TreeTools): Promise<Fetched> {
    const { signal, maxBytes, checked } = tools;
    const { patienceMs } = this.options;
    using held = new DisposableStack();
    const download = held.use(new Download({ url: this.url, signal, maxBytes, patienceMs }));
    const proxy = checked ? held.use(new CheckedProxy({ signal: download.signal })) : undefined;
    const response = await this.#answer(headers, download, signal, proxy);
    const all = held.move();
    return { response, download, [Symbol.dispose]: () => all.dispose() };
  }

  async #answer(
    headers: Headers,
    download: Download,
    signal: AbortSignal,
    proxy: CheckedProxy | undefined,
  ): Promise<Response> {
    let response: Response;
    // The server must not compress or decompress: `.tar.gz` stays compressed.
    headers.set("accept-encoding", "identity");
    try {
      response = await fetch(this.url, {
        headers,
        signal: download.signal,
        ...proxy && { client: proxy.client },
      });
    } catch (error) {
      signal.throwIfAborted();
      if (download.failure) throw download.failure;
      if (proxy?.refusal) throw proxy.refusal;
      const why = proxy?.unreachable ?? (error instanceof Error ? error.message : String(error));
      throw new SvcError("upstream_failed", `Cannot fetch ${this.url}: ${why}`, {
        cause: error,
        help: "check the address, and that this server can reach it",
      });
    }
    if (response.ok || response.status === 304 && headers.has("if-none-match")) return response;
    if (response.status === 304 && headers.has("if-modified-since")) return response;
    await response.body?.cancel();
    if (proxy?.refusal) throw proxy.refusal;
    throw new SvcError(
      response.status === 404 ? "build_failed" : "upstream_failed",
      `Cannot fetch ${this.url}: ${proxy?.unreachable ?? `the server answered ${response.status}`}`,
      { help: "check the address" },
    );
  }

  async #store(fetched: Fetched, tools: TreeTools): Promise<OpenTree> {
    using _held = fetched;
    const { response, download } = fetched;
    const folder = await tools.temporary();
    try {
      const name = fileNameOf(this.url);
      const host = `${folder.path}/${name}`;
      const wanted = this.options.checksum === undefined
        ? undefined
        : parseChecksum(this.options.checksum, this.url);
      const hash = createHash(wanted?.algorithm ?? "sha256");
      const total = Number(response.headers.get("content-length")) || undefined;
      download.announced(total);
      using file = await Deno.open(host, { write: true, createNew: true, mode: 0o600 });
      for await (const chunk of response.body ?? []) {
        tools.signal.throwIfAborted();
        hash.update(chunk);
        for (let at = 0; at < chunk.length;) at += await file.write(chunk.subarray(at));
        download.count(chunk.length);
        tools.onProgress("received", download.received, total);
      }
      const hex = hash.digest("hex");
      if (wanted && hex !== wanted.hex) {
        throw new SvcError(
          "build_failed",
          `Cannot add ${this.url}: its ${wanted.algorithm} is ${hex}, not ${wanted.hex}`,
          { help: "the file has changed, or the checksum is of another one" },
        );
      }
      const modified = Date.parse(response.headers.get("last-modified") ?? "");
      const seconds = Number.isNaN(modified) ? 0 : Math.floor(modified / 1000);
      const digest = `${wanted?.algorithm ?? "sha256"}:${hex}`;
      this.#digest = `${digest} ${seconds}`;
      this.#take(digest);
      await Deno.chmod(host, 0o600);
      setTimes(host, seconds);
      const tree = { root: folder.path, ownersKept: false };
      const dispose = { [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
      if (!this.options.unpack || !await isArchive(folder.path, name)) {
        return { ...tree, ...dispose };
      }
      return { ...await this.#unpack(name, folder.path, tools), ...dispose };
    } catch (error) {
      await response.body?.cancel().catch(() => {/* the connection broke */});
      await folder[Symbol.asyncDispose]();
      tools.signal.throwIfAborted();
      throw download.failure ?? error;
    }
  }

  /** Unpacks the archive into a folder beside it, as a tree of its own. */
  async #unpack(name: string, folder: string, { maxUnpackedBytes, signal }: TreeTools) {
    const root = `${folder}/.tree`;
    await Deno.mkdir(root);
    const extractor = new Extractor({ root, owners: "archive", strict: false });
    const tooLarge = (limit: number) => unpackedTooLarge(limit, withoutCredentials(this.url));
    try {
      const parser = new TarParser(extractor);
      for await (const chunk of limited(plainBytes(folder, name), maxUnpackedBytes, tooLarge)) {
        signal.throwIfAborted();
        parser.push(chunk);
      }
      parser.finish();
      extractor.finish();
    } finally {
      extractor.abandon();
    }
    return { root, ownersKept: true };
  }
}

/** A tree of one file that is fetched once, with Last-Modified as its time and mode 600. */
export function httpTree(url: string, options: HttpTreeOptions = {}): TreeSource {
  return new HttpTree(url, options);
}
