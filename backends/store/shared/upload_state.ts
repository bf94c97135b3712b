/**
 * What a bucket holds of an upload, so that any server goes on with it. Below `uploads/<id>/`:
 *
 *     created                     there from the first moment to the last: without it the upload is over
 *     multipart-<start>-<writer>  record of the multipart upload that takes the bytes from <start> on
 *     segment-<start>-<writer>    what such a multipart upload became when it was completed
 *     tail-<start>-<writer>       the bytes behind the last whole part, as of the last flush
 *     commit-<writer>             record of the multipart upload that makes the final object
 *
 * and of a service that has no multipart uploads also the parts (`part-…`) and what joins them (`join-…`).
 *
 * Parts are written in order and all of one size. Two servers that take themselves for an upload's writer
 * (a client that went from one to the other) never write the same name: what counts is the chain of
 * stretches, each beginning where the one before ends. Multipart uploads are found through their records.
 */
import type { Bucket, Call, Part } from "./bucket.ts";
import { collect } from "./body.ts";

/** Bytes of every part but an object's last. S3 takes at least 5 MiB. */
export const PART = 8 * 1024 * 1024;

export const UPLOADS = "uploads/";

export interface MultipartRecord {
  /** The object that the multipart upload becomes. */
  key: string;
  uploadId: string;
}

export interface Segment {
  key: string;
  size: number;
}

export interface OpenMultipart extends MultipartRecord {
  start: number;
  parts: Part[];
}

export interface UploadState {
  segments: Segment[];
  multipart?: OpenMultipart;
  tail?: Segment;
  /** Bytes that are durable. */
  offset: number;
  modified: Date;
}

export const folderOf = (id: string): string => `${UPLOADS}${id}/`;

/** Padded, so that texts sort like numbers. */
export const position = (start: number): string => String(start).padStart(16, "0");

export async function readRecord(
  bucket: Bucket,
  key: string,
  call: Call,
): Promise<MultipartRecord | undefined> {
  const found = await bucket.get(key, { start: 0 }, call);
  if (!found) return undefined;
  const bytes = await collect(found.body, found.size);
  return JSON.parse(new TextDecoder().decode(bytes)) as MultipartRecord;
}

export async function putRecord(
  bucket: Bucket,
  key: string,
  record: MultipartRecord,
  call: Call = {},
): Promise<void> {
  const { key: target, uploadId } = record;
  await bucket.put(key, new TextEncoder().encode(JSON.stringify({ key: target, uploadId })), call);
}

interface Listed {
  key: string;
  size: number;
  modified: Date;
}

export async function listFolder(bucket: Bucket, id: string, call: Call): Promise<Listed[]> {
  const objects: Listed[] = [];
  for (let token: string | undefined;;) {
    const page = await bucket.list(folderOf(id), { ...call, token });
    objects.push(...page.objects);
    if (!(token = page.next)) return objects;
  }
}

const largest = (objects: Listed[]): Listed | undefined =>
  objects.reduce<Listed | undefined>((a, b) => a && a.size >= b.size ? a : b, undefined);

/** Of several records, the one whose multipart upload has most whole parts. */
async function longest(
  bucket: Bucket,
  records: Listed[],
  start: number,
  call: Call,
): Promise<{ multipart: OpenMultipart; modified: Date } | "gone" | undefined> {
  let best: { multipart: OpenMultipart; modified: Date } | undefined;
  for (const { key, modified } of records) {
    const record = await readRecord(bucket, key, call);
    const listed = record && await bucket.listParts(record.key, record.uploadId, call);
    // Completed since the listing, or dropped by a rule of the bucket.
    if (!listed) return "gone";
    const parts: Part[] = [];
    let newest = modified;
    for (const part of listed) {
      if (part.number !== parts.length + 1 || part.size !== PART) break;
      parts.push({ number: part.number, etag: part.etag });
      if (part.modified > newest) newest = part.modified;
    }
    if (!best || parts.length > best.multipart.parts.length) {
      best = { multipart: { ...record, start, parts }, modified: newest };
    }
  }
  return best;
}

async function assemble(
  bucket: Bucket,
  id: string,
  objects: Listed[],
  call: Call,
): Promise<UploadState | "gone"> {
  const folder = folderOf(id);
  const at = (kind: string, start: number) =>
    objects.filter(({ key }) => key.startsWith(`${folder}${kind}-${position(start)}-`));
  const state: UploadState = { segments: [], offset: 0, modified: new Date(0) };
  for (const { modified } of objects) if (modified > state.modified) state.modified = modified;
  const names = new Set(objects.map(({ key }) => key));
  for (;;) {
    const segment = largest(at("segment", state.offset));
    const records = at("multipart", state.offset).filter(({ key }) =>
      !names.has(key.replace("/multipart-", "/segment-"))
    );
    const open = await longest(bucket, records, state.offset, call);
    if (open === "gone") return "gone";
    if (segment && segment.size >= (open?.multipart.parts.length ?? 0) * PART) {
      state.segments.push({ key: segment.key, size: segment.size });
      state.offset += segment.size;
      continue;
    }
    if (open) {
      state.multipart = open.multipart;
      state.offset += open.multipart.parts.length * PART;
      if (open.modified > state.modified) state.modified = open.modified;
    }
    break;
  }
  const tail = largest(at("tail", state.offset));
  if (tail) {
    state.tail = { key: tail.key, size: tail.size };
    state.offset += tail.size;
  }
  return state;
}

/** Undefined: the upload does not exist, or has ended. */
export async function loadState(
  bucket: Bucket,
  id: string,
  call: Call,
): Promise<UploadState | undefined> {
  for (let attempt = 0;; attempt++) {
    const objects = await listFolder(bucket, id, call);
    if (!objects.some(({ key }) => key === `${folderOf(id)}created`)) return undefined;
    const state = await assemble(bucket, id, objects, call);
    if (state !== "gone") return state;
    // Missing at the second look, too: acknowledged bytes are lost, so the upload cannot continue.
    if (attempt === 1) return undefined;
  }
}

/** Equal for two views of the same state. */
export function fingerprint(state: Omit<UploadState, "modified">): string {
  const { segments, multipart, tail, offset } = state;
  return JSON.stringify([
    offset,
    segments.map(({ key }) => key),
    multipart?.uploadId ?? "",
    multipart?.parts.length ?? 0,
    tail?.size ?? 0,
  ]);
}

/**
 * Removes everything of an upload. Idempotent: a repeated call finishes an interrupted one. `known`: the names
 * of all its objects, where no multipart upload is open; saves the search.
 */
export async function removeUpload(
  bucket: Bucket,
  id: string,
  { known, ...call }: Call & { known?: string[] } = {},
): Promise<void> {
  const folder = folderOf(id);
  await bucket.delete(`${folder}created`, call);
  const keys = known ?? (await listFolder(bucket, id, call)).map(({ key }) => key);
  await Promise.all(keys.map(async (key) => {
    if (!known && /^(multipart|commit)-/.test(key.slice(folder.length))) {
      const record = await readRecord(bucket, key, call);
      if (record) await bucket.abortMultipart(record.key, record.uploadId, call);
    }
    await bucket.delete(key, call);
  }));
}
