/** The steps of one write into containerd's content store: it is begun, gets its bytes, and is committed. */
import { SvcError } from "../base/errors.ts";
import { sleep } from "../base/sleep.ts";
import type { Digest } from "../oci/types.ts";
import type { Call } from "../wire/grpc/call.ts";
import type { CallOptions } from "./client.ts";
import type { ContainerdClient } from "./client.ts";
import { COMMIT, Content, type ContentInfo, STAT, type WriteMessage } from "./image_api.ts";

/**
 * How long to wait for a write that another client holds, in milliseconds: containerd releases it some time
 * after that client has gone.
 */
const LOCKED_MS = 10_000;
const LOCKED_EVERY_MS = 50;

export interface WriteAnswer {
  action: number;
  /** Bytes held. */
  offset: number;
  /** Of the bytes held. */
  digest: Digest;
}

export type Writing = Call<WriteMessage, WriteAnswer>;
export type WriteHead = Omit<WriteMessage, "action">;

/** True for an error with one of the codes. */
export const isCode = (error: unknown, ...codes: string[]): boolean =>
  error instanceof SvcError && codes.includes(error.code);

/** Undefined instead of a `not_found` error. */
export async function orMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isCode(error, "not_found")) return undefined;
    throw error;
  }
}

/** Existing content; undefined where it is missing. */
export async function contentInfo(
  client: ContainerdClient,
  digest: Digest,
  options?: CallOptions,
): Promise<ContentInfo | undefined> {
  const call = client.call(Content.info, { digest }, `Cannot look for ${digest}`, options);
  return (await orMissing(call))?.info;
}

export const ended = (attempted: string): SvcError =>
  new SvcError("upstream_failed", `${attempted}: it ended the write before it was committed`, {
    help: "see containerd's log",
  });

export const wrong = ({ expected }: WriteHead, why: string, cause?: unknown): SvcError =>
  new SvcError("digest_invalid", `Cannot store blob ${expected}: ${why}`, { cause });

/** Begins or goes on with the write of `head.ref`; the answer tells how much of it is held. */
export async function beginWrite(
  client: ContainerdClient,
  head: WriteHead,
  attempted: string,
  options: CallOptions,
): Promise<{ call: Writing; offset: number }> {
  const until = performance.now() + LOCKED_MS;
  for (;;) {
    const call = await client.open(Content.write, attempted, options);
    try {
      await call.send({ ...head, action: STAT });
      const answer = await call.receive();
      return { call, offset: answer?.offset ?? 0 };
    } catch (error) {
      call[Symbol.dispose]();
      if (!isCode(error, "unavailable") || performance.now() > until) throw error;
    }
    await sleep(LOCKED_EVERY_MS);
  }
}

/** Throws `digest_invalid` where the bytes do not have the digest. Existing content is fine. */
export async function commitWrite(
  client: ContainerdClient,
  call: Writing,
  head: WriteHead,
  { labels, attempted, options }: {
    labels?: Record<string, string>;
    attempted: string;
    options: CallOptions;
  },
): Promise<void> {
  const message = { ...head, action: COMMIT, offset: head.total, labels };
  await call.send(message, { last: true });
  let committed = false;
  try {
    // containerd may answer a commit more than once.
    for (let answer; (answer = await call.receive()) !== undefined;) {
      committed ||= answer.action === COMMIT;
    }
    if (!committed) throw ended(attempted);
  } catch (error) {
    if (!isCode(error, "conflict", "unavailable")) throw error;
    // Either another writer has stored the blob, or the bytes do not match the digest.
    if (await contentInfo(client, head.expected, options)) return;
    if (isCode(error, "unavailable")) throw error;
    throw wrong(head, "its content is other than the digest says", error);
  }
}

/** Leaves a write; resolves when containerd has released it, so that the next attempt can take it. */
export async function leaveWrite(call: Writing): Promise<void> {
  call.end();
  try {
    while (await call.receive() !== undefined) { /* the answers do not matter any more */ }
  } catch {
    // The reason does not matter either.
  }
}

/** Drops a write that is not committed. False where another client still holds it. */
export async function dropWrite(client: ContainerdClient, ref: string): Promise<boolean> {
  const until = performance.now() + LOCKED_MS;
  for (;;) {
    try {
      await orMissing(client.call(Content.abort, { ref }, `Cannot drop write ${ref}`));
      return true;
    } catch (error) {
      // containerd has not noticed yet that the writing client is gone.
      if (!isCode(error, "unavailable", "internal")) throw error;
      if (performance.now() > until) return false;
    }
    await sleep(LOCKED_EVERY_MS);
  }
}
