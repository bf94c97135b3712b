/** containerd's calls about content, images and its own plugins, with their field numbers. */
import { field, many, method } from "../wire/grpc/method.ts";
import type { Schema } from "../wire/grpc/protobuf.ts";

// Content

export interface ContentInfo {
  digest: string;
  /** Bytes. */
  size: number;
  labels: Record<string, string>;
}
const INFO: Schema = { digest: field(1), size: field(2, "uint"), labels: field(5, "labels") };

/** A write that is not committed. It survives its client, and a restart of containerd. */
export interface IngestStatus {
  ref: string;
  /** Bytes written so far. */
  offset: number;
  updatedAt?: { seconds: number };
}
const INGEST: Schema = {
  updatedAt: field(2, { seconds: field(1, "uint") }),
  ref: field(3),
  offset: field(4, "uint"),
};

export const STAT = 0, WRITE = 1, COMMIT = 2;

export interface WriteMessage {
  action: number;
  ref: string;
  /** Size of the finished blob, in bytes. */
  total: number;
  /** Digest of the finished blob. */
  expected: string;
  offset?: number;
  data?: Uint8Array;
  labels?: Record<string, string>;
}

const CONTENT = "containerd.services.content.v1.Content";

export const Content = {
  info: method<{ digest: string }, { info: ContentInfo }>(
    `${CONTENT}/Info`,
    { digest: field(1) },
    { info: field(1, INFO) },
  ),
  /** Changes the labels that `mask` names ("labels.KEY"); an empty value removes one. */
  update: method<
    {
      info: { digest: string; labels: Record<string, string> };
      mask: { paths: string[] };
    },
    unknown
  >(`${CONTENT}/Update`, { info: field(1, INFO), mask: field(2, { paths: many(1) }) }),
  /** The answer comes in several messages. */
  list: method<{ filters?: string[] }, { info: ContentInfo[] }>(
    `${CONTENT}/List`,
    { filters: many(1) },
    { info: many(1, INFO) },
  ),
  /** The answer comes in several messages; with `size` 0 it has all bytes from `offset` on. */
  read: method<{ digest: string; offset: number; size: number }, { data: Uint8Array }>(
    `${CONTENT}/Read`,
    { digest: field(1), offset: field(2, "uint"), size: field(3, "uint") },
    { data: field(2, "bytes") },
  ),
  statuses: method<{ filters?: string[] }, { statuses: IngestStatus[] }>(
    `${CONTENT}/ListStatuses`,
    { filters: many(1) },
    { statuses: many(1, INGEST) },
  ),
  /** Each message gets one or more answers. The first message opens the write, whatever its action. */
  write: method<WriteMessage, { action: number; offset: number; digest: string }>(
    `${CONTENT}/Write`,
    {
      action: field(1, "uint"),
      ref: field(2),
      total: field(3, "uint"),
      expected: field(4),
      offset: field(5, "uint"),
      data: field(6, "bytes"),
      labels: field(7, "labels"),
    },
    { action: field(1, "uint"), offset: field(4, "uint"), digest: field(6) },
  ),
  status: method<{ ref: string }, { status: IngestStatus }>(
    `${CONTENT}/Status`,
    { ref: field(1) },
    { status: field(1, INGEST) },
  ),
  abort: method<{ ref: string }, unknown>(`${CONTENT}/Abort`, { ref: field(1) }),
};

// Images

export interface ImageMessage {
  name: string;
  labels: Record<string, string>;
  target: { mediaType: string; digest: string; size: number };
}
const IMAGE: Schema = {
  name: field(1),
  labels: field(2, "labels"),
  target: field(3, { mediaType: field(1), digest: field(2), size: field(3, "uint") }),
};
const IMAGES = "containerd.services.images.v1.Images";
const ONE_IMAGE: Schema = { image: field(1, IMAGE) };

export const Images = {
  list: method<{ filters?: string[] }, { images: ImageMessage[] }>(
    `${IMAGES}/List`,
    { filters: many(1) },
    { images: many(1, IMAGE) },
  ),
  get: method<{ name: string }, { image: ImageMessage }>(
    `${IMAGES}/Get`,
    { name: field(1) },
    ONE_IMAGE,
  ),
  create: method<{ image: ImageMessage }, unknown>(`${IMAGES}/Create`, ONE_IMAGE),
  /** Changes what `mask` names ("target", "labels.KEY"); other labels stay. */
  update: method<{ image: ImageMessage; mask: { paths: string[] } }, unknown>(
    `${IMAGES}/Update`,
    { ...ONE_IMAGE, mask: field(2, { paths: many(1) }) },
  ),
  delete: method<{ name: string }, unknown>(`${IMAGES}/Delete`, { name: field(1) }),
};

// What containerd is made of

const INTROSPECTION = "containerd.services.introspection.v1.Introspection";

export const Plugins = method<
  { filters?: string[] },
  { plugins: { id: string; exports: Record<string, string> }[] }
>(
  `${INTROSPECTION}/Plugins`,
  { filters: many(1) },
  { plugins: many(1, { id: field(2), exports: field(5, "labels") }) },
);
