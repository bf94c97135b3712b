/**
 * A container of Azure-style blob storage, by the SDK. The parts of an upload are blocks, which belong to a
 * blob's name until they are put together or a week has passed. An upload's id begins the names of its blocks.
 */
import { Buffer } from "node:buffer";
import type { TokenCredential } from "@azure/identity";
import type { BlobItem, BlobPrefix, ContainerClient } from "@azure/storage-blob";
import {
  ATTEMPTS,
  type Bucket,
  type BucketOptions,
  type Call,
  type Head,
  type ListedPart,
  type Page,
  type Part,
  type Piece,
} from "../shared/bucket.ts";
import { isMissing, isRefusedCondition, ServiceError, storeError } from "../shared/errors.ts";
import { StalledError, TIMEOUTS, type Timeouts } from "../shared/http.ts";
import { retried } from "../shared/retry.ts";
import { type Account, openAccount } from "./account.ts";
import { told } from "./errors.ts";
import type { AzureLocation } from "./location.ts";
import { Signer } from "./signer.ts";
import { FetchTransport } from "./transport.ts";

const SCOPE = "https://storage.azure.com/.default";
const BYTES = { blobContentType: "application/octet-stream" };
/** Seconds for which the source address of one copy is valid. */
const COPY_SECONDS = 3600;

/** All ids have one length, as the service requires. */
const blockId = (uploadId: string, number: number) =>
  Buffer.from(`${uploadId}-${String(number).padStart(5, "0")}`).toString("base64");

interface Opened extends Account {
  container: ContainerClient;
  signer: Signer;
}

export class AzureBucket implements Bucket {
  readonly shown: string;
  readonly timeouts: Timeouts;
  #transport: FetchTransport;
  #opened: Promise<Opened> | undefined;

  constructor(
    private readonly location: AzureLocation,
    private readonly options: BucketOptions = {},
  ) {
    this.shown = location.shown;
    this.timeouts = { ...TIMEOUTS, ...options.timeouts };
    this.#transport = new FetchTransport(this.timeouts);
  }

  async #open(): Promise<Opened> {
    const account = await openAccount(this.location, {
      env: this.options.env,
      // Attempts are counted here: the SDK's own are not limited in time.
      pipeline: { httpClient: this.#transport, retryOptions: { maxTries: 1 } },
      limited: (source) => ({ getToken: (...call) => this.#limited(source.getToken(...call)) }),
    });
    return {
      ...account,
      container: account.service.getContainerClient(this.location.container),
      signer: new Signer(account),
    };
  }

  async #limited(token: ReturnType<TokenCredential["getToken"]>) {
    const { promise, reject } = Promise.withResolvers<never>();
    const { answerMs } = this.timeouts;
    const timer = setTimeout(() => {
      reject(new StalledError(`no credentials came for ${answerMs} ms`));
    }, answerMs);
    try {
      return await Promise.race([token, promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  async ready(): Promise<void> {
    await (this.#opened ??= this.#open());
  }

  async #send<T>(call: Call, send: (opened: Opened) => Promise<T>): Promise<T> {
    const opened = await (this.#opened ??= this.#open());
    return await retried(this.options.attempts ?? ATTEMPTS, call.signal, async () => {
      try {
        return await send(opened);
      } catch (error) {
        throw told(error);
      }
    });
  }

  #name(key: string): string {
    return this.location.prefix + key;
  }

  fail(error: unknown, attempted: string): unknown {
    return storeError(error, attempted, this.shown);
  }

  async head(key: string, { signal }: Call = {}): Promise<Head | undefined> {
    try {
      const found = await this.#send(
        { signal },
        ({ container }) =>
          container.getBlobClient(this.#name(key)).getProperties({ abortSignal: signal }),
      );
      return {
        size: found.contentLength ?? 0,
        etag: found.etag ?? "",
        modified: found.lastModified ?? new Date(0),
      };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  async get(
    key: string,
    { start, end }: { start: number; end?: number },
    { etag, signal }: Call & { etag?: string } = {},
  ): Promise<(Head & { total: number; body: ReadableStream<Uint8Array> }) | undefined> {
    try {
      const { found, body } = await this.#send({ signal }, async ({ container }) => {
        const own = AbortSignal.any(signal ? [signal] : []);
        const found = await container.getBlobClient(this.#name(key)).download(
          start,
          end === undefined ? undefined : end - start + 1,
          { abortSignal: own, conditions: { ifMatch: etag }, maxRetryRequests: 0 },
        );
        return { found, body: this.#transport.take(own)! };
      });
      const size = found.contentLength ?? 0;
      return {
        size,
        total: Number(/\/(\d+)$/.exec(found.contentRange ?? "")?.[1] ?? size),
        etag: found.etag ?? "",
        modified: found.lastModified ?? new Date(0),
        body,
      };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  async put(
    key: string,
    body: Uint8Array,
    { ifAbsent, signal }: Call & { ifAbsent?: boolean } = {},
  ): Promise<void> {
    await this.#send(
      { signal },
      ({ container }) =>
        container.getBlockBlobClient(this.#name(key)).upload(
          body as Uint8Array<ArrayBuffer>,
          body.length,
          {
            abortSignal: signal,
            blobHTTPHeaders: BYTES,
            conditions: ifAbsent ? { ifNoneMatch: "*" } : {},
          },
        ),
    );
  }

  async delete(key: string, { signal }: Call = {}): Promise<void> {
    try {
      await this.#send(
        { signal },
        ({ container }) =>
          container.deleteBlob(this.#name(key), {
            abortSignal: signal,
            deleteSnapshots: "include",
          }),
      );
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }

  /** The service lists only from a prefix's beginning: the caller drops the keys up to `after`. */
  async list(
    prefix: string,
    options: Call & { after?: string; token?: string; delimiter?: "/"; limit?: number } = {},
  ): Promise<Page> {
    const { after, token, delimiter, limit, signal } = options;
    const root = this.location.prefix.length;
    const found = await this.#send({ signal }, async ({ container }) => {
      const given = { prefix: this.#name(prefix) || undefined, abortSignal: signal };
      // With a small page size, reaching `after` could take many pages.
      const maxPageSize = after === undefined ? limit : undefined;
      const page = { maxPageSize, continuationToken: token };
      const pages = delimiter
        ? container.listBlobsByHierarchy(delimiter, given).byPage(page)
        : container.listBlobsFlat(given).byPage(page);
      return (await pages.next()).value as {
        segment: { blobItems: BlobItem[]; blobPrefixes?: BlobPrefix[] };
        continuationToken?: string;
      };
    });
    const { blobItems, blobPrefixes = [] } = found.segment;
    return {
      objects: blobItems.map(({ name, properties }) => ({
        key: name.slice(root),
        size: properties.contentLength ?? 0,
        modified: properties.lastModified,
      })),
      prefixes: blobPrefixes.map(({ name }) => name.slice(root)),
      ...(found.continuationToken && { next: found.continuationToken }),
    };
  }

  createMultipart(): Promise<string> {
    return Promise.resolve(crypto.randomUUID());
  }

  async uploadPart(
    key: string,
    uploadId: string,
    number: number,
    body: Uint8Array,
    { unsealed, signal }: Call & { unsealed?: boolean } = {},
  ): Promise<Part> {
    const etag = blockId(uploadId, number);
    const [, there] = await Promise.all([
      this.#send(
        { signal },
        ({ container }) =>
          container.getBlockBlobClient(this.#name(key)).stageBlock(
            etag,
            body as Uint8Array<ArrayBuffer>,
            body.length,
            {
              abortSignal: signal,
            },
          ),
      ),
      unsealed ? this.head(key, { signal }) : undefined,
    ]);
    if (there) {
      throw new ServiceError("NoSuchUpload", 404, "another server put the blocks together");
    }
    return { number, etag };
  }

  async copyPart(
    { key: from, start, end }: Piece,
    key: string,
    uploadId: string,
    number: number,
    { signal }: Call = {},
  ): Promise<Part> {
    const etag = blockId(uploadId, number);
    await this.#send({ signal }, async ({ container, signer, by }) => {
      const source = container.getBlobClient(this.#name(from));
      const token = by.kind === "token" ? await by.source.getToken(SCOPE) : undefined;
      const url = by.kind === "key" ? await signer.sign(source, COPY_SECONDS) : source.url;
      await container.getBlockBlobClient(this.#name(key)).stageBlockFromURL(
        etag,
        url!,
        start,
        end - start + 1,
        {
          abortSignal: signal,
          ...(token && { sourceAuthorization: { scheme: "Bearer", value: token.token } }),
        },
      );
    });
    return { number, etag };
  }

  async listParts(
    key: string,
    uploadId: string,
    { signal }: Call = {},
  ): Promise<ListedPart[] | undefined> {
    let blocks;
    try {
      blocks = await this.#send(
        { signal },
        ({ container }) =>
          container.getBlockBlobClient(this.#name(key)).getBlockList("all", {
            abortSignal: signal,
          }),
      );
    } catch (error) {
      // The upload has no block yet.
      if (isMissing(error)) return [];
      throw error;
    }
    if (blocks.committedBlocks?.length) return undefined;
    return (blocks.uncommittedBlocks ?? []).flatMap(({ name, size }) => {
      const text = Buffer.from(name, "base64").toString();
      if (!text.startsWith(`${uploadId}-`)) return [];
      const number = Number(text.slice(uploadId.length + 1));
      return [{ number, etag: name, size, modified: new Date(0) }];
    }).sort((a, b) => a.number - b.number);
  }

  async complete(
    key: string,
    _uploadId: string,
    parts: Part[],
    { ifAbsent, signal }: Call & { ifAbsent?: boolean } = {},
  ): Promise<void> {
    await this.#send(
      { signal },
      ({ container }) =>
        container.getBlockBlobClient(this.#name(key)).commitBlockList(
          parts.map(({ etag }) => etag),
          {
            abortSignal: signal,
            blobHTTPHeaders: BYTES,
            conditions: ifAbsent ? { ifNoneMatch: "*" } : {},
          },
        ),
    );
  }

  /**
   * Putting no blocks together makes the service drop all blocks of a name. Where other writers use the name,
   * the blocks stay until the service drops them after a week.
   */
  async abortMultipart(key: string, _uploadId: string, call: Call = {}): Promise<void> {
    if (key.startsWith("objects/")) return;
    try {
      await this.complete(key, "", [], { ...call, ifAbsent: true });
    } catch (error) {
      if (isRefusedCondition(error)) return;
      throw error;
    }
    await this.delete(key, call);
  }

  signedUrl(key: string, seconds: number, { signal }: Call = {}): Promise<string | undefined> {
    return this.#send(
      { signal },
      ({ container, signer }) => signer.sign(container.getBlobClient(this.#name(key)), seconds),
    );
  }

  close(): void {
    this.#transport.close();
  }
}
