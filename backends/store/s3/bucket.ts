/**
 * A bucket of S3. Only this module knows the SDK, which retries requests a bounded number of
 * times with growing pauses.
 */
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  ListPartsCommand,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
  UploadPartCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import { SvcError } from "../../../lib/base/errors.ts";
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
import { isMissing, serviceCode, ServiceError, storeError } from "../shared/errors.ts";
import { ConnectionError, StalledError, TIMEOUTS, type Timeouts } from "../shared/http.ts";
import { FetchHandler, type SdkRequest } from "./http.ts";
import type { S3Location } from "./location.ts";
import { presign } from "./presign.ts";

/** Turns the SDK's errors into those of the shared modules. */
function told(error: unknown): unknown {
  // The SDK also adds its metadata to errors of the transport.
  if (error instanceof StalledError || error instanceof ConnectionError) return error;
  if (!(error instanceof Error) || !("$metadata" in error)) return error;
  const { httpStatusCode } = error.$metadata as { httpStatusCode?: number };
  return new ServiceError(error.name, httpStatusCode, error.message, { cause: error });
}

export class S3Bucket implements Bucket {
  readonly timeouts: Timeouts;
  readonly shown: string;
  #client: S3Client;
  #handler: FetchHandler;

  constructor(private readonly location: S3Location, options: BucketOptions = {}) {
    this.timeouts = { ...TIMEOUTS, ...options.timeouts };
    this.shown = location.shown;
    this.#handler = new FetchHandler(this.timeouts);
    // A private service seldom cares about the region, yet every signature needs one.
    const region = location.region ?? (location.endpoint && "us-east-1");
    this.#client = new S3Client({
      ...(region && { region }),
      ...(location.endpoint && { endpoint: location.endpoint }),
      ...(location.credentials && { credentials: location.credentials }),
      forcePathStyle: location.pathStyle,
      followRegionRedirects: true,
      maxAttempts: options.attempts ?? ATTEMPTS,
      // Otherwise the SDK adds trailers and checksums that only the newest services understand.
      requestChecksumCalculation: "WHEN_REQUIRED",
      responseChecksumValidation: "WHEN_REQUIRED",
      requestHandler: this.#handler as unknown as S3ClientConfig["requestHandler"],
    });
  }

  async ready(): Promise<void> {
    try {
      await this.#client.config.region();
    } catch (error) {
      throw new SvcError("config_invalid", `Cannot use storage ${this.shown}: no region is named`, {
        cause: error,
        help: "add ?region=REGION, or set AWS_REGION",
      });
    }
  }

  #at(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.location.bucket, Key: this.location.prefix + key };
  }

  /** Throws the raw error: callers examine it before they turn it into the final one with `fail`. */
  async #send<T>(
    call: Call,
    send: (client: S3Client, options: { abortSignal?: AbortSignal }) => Promise<T>,
  ): Promise<T> {
    call.signal?.throwIfAborted();
    try {
      return await send(this.#client, { abortSignal: call.signal });
    } catch (error) {
      call.signal?.throwIfAborted();
      throw told(error);
    }
  }

  fail(error: unknown, attempted: string): unknown {
    return storeError(error, attempted, this.shown);
  }

  async head(key: string, call: Call = {}): Promise<Head | undefined> {
    try {
      const found = await this.#send(
        call,
        (client, options) => client.send(new HeadObjectCommand(this.#at(key)), options),
      );
      return {
        size: found.ContentLength ?? 0,
        etag: found.ETag ?? "",
        modified: found.LastModified ?? new Date(0),
      };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  async get(
    key: string,
    range: { start: number; end?: number },
    call: Call & { etag?: string } = {},
  ): Promise<(Head & { total: number; body: ReadableStream<Uint8Array> }) | undefined> {
    try {
      const found = await this.#send(call, (client, options) =>
        client.send(
          new GetObjectCommand({
            ...this.#at(key),
            Range: `bytes=${range.start}-${range.end ?? ""}`,
            ...(call.etag && { IfMatch: call.etag }),
          }),
          options,
        ));
      const size = found.ContentLength ?? 0;
      const total = Number(/\/(\d+)$/.exec(found.ContentRange ?? "")?.[1] ?? size);
      return {
        size,
        total,
        etag: found.ETag ?? "",
        modified: found.LastModified ?? new Date(0),
        body: found.Body as unknown as ReadableStream<Uint8Array>,
      };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  async put(key: string, body: Uint8Array, call: Call & { ifAbsent?: boolean } = {}) {
    await this.#send(call, (client, options) =>
      client.send(
        new PutObjectCommand({
          ...this.#at(key),
          Body: body,
          ContentLength: body.length,
          ContentType: "application/octet-stream",
          ...(call.ifAbsent && { IfNoneMatch: "*" }),
        }),
        options,
      ));
  }

  async delete(key: string, call: Call = {}): Promise<void> {
    try {
      await this.#send(
        call,
        (client, options) => client.send(new DeleteObjectCommand(this.#at(key)), options),
      );
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }

  async list(
    prefix: string,
    options: Call & { after?: string; token?: string; delimiter?: "/"; limit?: number } = {},
  ): Promise<Page> {
    const root = this.location.prefix;
    const found = await this.#send(options, (client, call) =>
      client.send(
        new ListObjectsV2Command({
          Bucket: this.location.bucket,
          Prefix: root + prefix,
          Delimiter: options.delimiter,
          MaxKeys: options.limit,
          ContinuationToken: options.token,
          StartAfter: options.after === undefined || options.token ? undefined : root +
            options.after,
        }),
        call,
      ));
    if (found.IsTruncated && !found.NextContinuationToken) {
      throw new SvcError(
        "upstream_failed",
        `Cannot list ${this.shown}: the listing ends without a token for the next page`,
      );
    }
    return {
      objects: (found.Contents ?? []).map((entry) => ({
        key: entry.Key!.slice(root.length),
        size: entry.Size ?? 0,
        modified: entry.LastModified ?? new Date(0),
      })),
      prefixes: (found.CommonPrefixes ?? []).map((entry) => entry.Prefix!.slice(root.length)),
      ...(found.IsTruncated && { next: found.NextContinuationToken }),
    };
  }

  #source(key: string): string {
    const path = `${this.location.bucket}/${this.location.prefix}${key}`;
    return path.split("/").map(encodeURIComponent).join("/");
  }

  async createMultipart(key: string, call: Call = {}): Promise<string> {
    const { UploadId } = await this.#send(call, (client, options) =>
      client.send(
        new CreateMultipartUploadCommand({
          ...this.#at(key),
          ContentType: "application/octet-stream",
        }),
        options,
      ));
    return UploadId!;
  }

  async uploadPart(
    key: string,
    uploadId: string,
    number: number,
    body: Uint8Array,
    call: Call = {},
  ): Promise<Part> {
    const { ETag } = await this.#send(call, (client, options) =>
      client.send(
        new UploadPartCommand({
          ...this.#at(key),
          UploadId: uploadId,
          PartNumber: number,
          Body: body,
          ContentLength: body.length,
        }),
        options,
      ));
    return { number, etag: ETag! };
  }

  async copyPart(
    from: Piece,
    key: string,
    uploadId: string,
    number: number,
    call: Call = {},
  ): Promise<Part> {
    const { CopyPartResult } = await this.#send(call, (client, options) =>
      client.send(
        new UploadPartCopyCommand({
          ...this.#at(key),
          UploadId: uploadId,
          PartNumber: number,
          CopySource: this.#source(from.key),
          CopySourceRange: `bytes=${from.start}-${from.end}`,
        }),
        options,
      ));
    return { number, etag: CopyPartResult!.ETag! };
  }

  async listParts(
    key: string,
    uploadId: string,
    call: Call = {},
  ): Promise<ListedPart[] | undefined> {
    const parts: ListedPart[] = [];
    try {
      let marker: string | undefined;
      for (;;) {
        const found = await this.#send(call, (client, options) =>
          client.send(
            new ListPartsCommand({
              ...this.#at(key),
              UploadId: uploadId,
              PartNumberMarker: marker,
            }),
            options,
          ));
        for (const part of found.Parts ?? []) {
          parts.push({
            number: part.PartNumber!,
            etag: part.ETag!,
            size: part.Size ?? 0,
            modified: part.LastModified ?? new Date(0),
          });
        }
        if (!found.IsTruncated) return parts;
        marker = found.NextPartNumberMarker;
      }
    } catch (error) {
      if (serviceCode(error) === "NoSuchUpload" || isMissing(error)) return undefined;
      throw error;
    }
  }

  async complete(
    key: string,
    uploadId: string,
    parts: Part[],
    call: Call & { ifAbsent?: boolean } = {},
  ): Promise<void> {
    await this.#send(call, (client, options) =>
      client.send(
        new CompleteMultipartUploadCommand({
          ...this.#at(key),
          UploadId: uploadId,
          MultipartUpload: {
            Parts: parts.map(({ number, etag }) => ({ PartNumber: number, ETag: etag })),
          },
          ...(call.ifAbsent && { IfNoneMatch: "*" }),
        }),
        options,
      ));
  }

  async abortMultipart(key: string, uploadId: string, call: Call = {}): Promise<void> {
    try {
      await this.#send(call, (client, options) =>
        client.send(
          new AbortMultipartUploadCommand({ ...this.#at(key), UploadId: uploadId }),
          options,
        ));
    } catch (error) {
      if (serviceCode(error) !== "NoSuchUpload" && !isMissing(error)) throw error;
    }
  }

  async signedUrl(key: string, seconds: number, call: Call = {}): Promise<string | undefined> {
    // The SDK builds the request's address; the request is stopped before it is sent.
    let target: SdkRequest | undefined;
    const command = new GetObjectCommand(this.#at(key));
    command.middlewareStack.add(
      () => (args) => {
        target = args.request as SdkRequest;
        return Promise.resolve({ output: { $metadata: {} }, response: undefined });
      },
      { step: "build", priority: "low" },
    );
    await this.#send(call, (client, options) => client.send(command, options));
    const { config } = this.#client;
    const [credentials, region] = await Promise.all([config.credentials(), config.region()]);
    return presign(target!, { ...credentials, region }, seconds);
  }

  close(): void {
    this.#client.destroy();
  }
}
