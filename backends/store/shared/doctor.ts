/** `svc doctor`: tries every operation that the store needs, in a folder that it removes again. */
import { SvcError } from "../../../lib/base/errors.ts";
import { collect } from "./body.ts";
import type { Bucket, Call, Part } from "./bucket.ts";
import { isNotImplemented, isRefusedCondition } from "./errors.ts";
import { PART } from "./upload_state.ts";

export interface Probe {
  /** The operation: "put an object". */
  operation: string;
  ok: boolean;
  /** True: the store does not work without the operation. False: `detail` names a substitute. */
  needed: boolean;
  /** The result, or the error. */
  detail: string;
}

interface Step {
  operation: string;
  /** The substitute; absent: the operation is needed. */
  substitute?: string;
  /** Undefined: it works. Otherwise throws or returns what is wrong. */
  try: () => Promise<string | undefined>;
}

const bytesOf = (text: string) => new TextEncoder().encode(text);

async function refused(work: Promise<unknown>): Promise<string | undefined> {
  try {
    await work;
    return "the condition is ignored";
  } catch (error) {
    if (isRefusedCondition(error)) return undefined;
    if (isNotImplemented(error)) return "the service does not have it";
    throw error;
  }
}

/** The bucket below the folder of one trial. */
class Trial {
  constructor(readonly bucket: Bucket, readonly folder: string, readonly call: Call) {}

  key(name: string): string {
    return `${this.folder}${name}`;
  }

  async read(name: string, start: number, end?: number) {
    const found = await this.bucket.get(this.key(name), { start, end }, this.call);
    if (!found) return undefined;
    return { ...found, text: new TextDecoder().decode(await collect(found.body, found.size)) };
  }
}

/** Undefined: it works. Otherwise throws or returns what is wrong. */
async function tryJoin(trial: Trial): Promise<string | undefined> {
  const { bucket, call } = trial;
  const sources = [trial.key("parts"), trial.key("a:1+2")];
  const scratch = trial.key("scratch");
  const to = { key: trial.key("copy"), ifAbsent: true, scratch, tail: bytesOf("end") };
  await bucket.join!({ sources, ...to }, call);
  const end = (await trial.read("copy", PART + 4))?.text;
  return end === "0123456789end" ? undefined : "the object is not what was joined";
}

/** As {@linkcode tryJoin}. */
async function tryCopyPart(trial: Trial): Promise<string | undefined> {
  const { bucket, call } = trial;
  const id = await bucket.createMultipart(trial.key("copy"), call);
  try {
    const from = { key: trial.key("parts"), start: 0, end: PART - 1 };
    const copied = await bucket.copyPart(from, trial.key("copy"), id, 1, call);
    await bucket.complete(trial.key("copy"), id, [copied], call);
  } catch (error) {
    await bucket.abortMultipart(trial.key("copy"), id);
    throw error;
  }
  const size = (await bucket.head(trial.key("copy"), call))?.size;
  return size === PART ? undefined : `expected ${PART} bytes, found ${size ?? "nothing"}`;
}

function objectSteps(trial: Trial): Step[] {
  const { bucket, folder, call } = trial;
  return [
    {
      operation: "put an object",
      try: async () => void await bucket.put(trial.key("a:1+2"), bytesOf("0123456789"), call),
    },
    {
      operation: "look it up",
      try: async () => {
        const head = await bucket.head(trial.key("a:1+2"), call);
        return head?.size === 10
          ? undefined
          : `expected 10 bytes, found ${head?.size ?? "nothing"}`;
      },
    },
    {
      operation: "get a range of it",
      try: async () => {
        const found = await trial.read("a:1+2", 3, 5);
        return found?.text === "345" && found.total === 10
          ? undefined
          : `expected 3 of 10 bytes, got ${found?.size ?? "nothing"} of ${
            found?.total ?? "nothing"
          }`;
      },
    },
    {
      operation: "put where there is nothing (If-None-Match: *)",
      substitute: "svc looks before it writes, and two servers can do so at the same moment",
      try: () =>
        refused(bucket.put(trial.key("a:1+2"), bytesOf("0123456789"), { ...call, ifAbsent: true })),
    },
    {
      operation: "list in byte order, after a key and by folder",
      try: async () => {
        for (const name of ["b/1", "b/2", "c"]) {
          await bucket.put(trial.key(name), bytesOf("x"), call);
        }
        const all = await bucket.list(folder, call);
        const names = all.objects.map((entry) => entry.key.slice(folder.length)).join(" ");
        if (names !== "a:1+2 b/1 b/2 c") return `expected a:1+2 b/1 b/2 c, got ${names}`;
        const page = await bucket.list(folder, {
          ...call,
          delimiter: "/",
          after: trial.key("a:1+2"),
        });
        const found = [...page.prefixes, ...page.objects.map((entry) => entry.key)]
          .map((name) => name.slice(folder.length)).filter((name) => name > "a:1+2").join(" ");
        return found === "b/ c" ? undefined : `expected b/ and c, got ${found}`;
      },
    },
  ];
}

function partSteps(trial: Trial): Step[] {
  const { bucket, call } = trial;
  let parts: Part[] = [];
  let uploadId = "";
  return [
    {
      operation: "upload in parts",
      try: async () => {
        uploadId = await bucket.createMultipart(trial.key("parts"), call);
        parts = [
          await bucket.uploadPart(trial.key("parts"), uploadId, 1, new Uint8Array(PART), call),
        ];
        parts.push(await bucket.uploadPart(trial.key("parts"), uploadId, 2, bytesOf("tail"), call));
        return undefined;
      },
    },
    {
      operation: "list the parts of an upload",
      try: async () => {
        const listed = await bucket.listParts(trial.key("parts"), uploadId, call);
        const sizes = (listed ?? []).map((part) => part.size).join(" ");
        return sizes === `${PART} 4`
          ? undefined
          : `expected ${PART} 4 bytes, got ${sizes || "none"}`;
      },
    },
    {
      operation: "complete an upload",
      try: async () => {
        await bucket.complete(trial.key("parts"), uploadId, parts, call);
        const found = await trial.read("parts", PART);
        return found?.text === "tail" ? undefined : "the object is not what was sent";
      },
    },
  ];
}

function lastSteps(trial: Trial): Step[] {
  const { bucket, folder, call } = trial;
  return [
    {
      operation: bucket.join ? "join objects" : "copy a part from another object",
      substitute: "svc reads and sends the bytes itself, which takes longer",
      try: () => bucket.join ? tryJoin(trial) : tryCopyPart(trial),
    },
    {
      operation: "abort an upload",
      try: async () => {
        const id = await bucket.createMultipart(trial.key("aborted"), call);
        await bucket.uploadPart(trial.key("aborted"), id, 1, bytesOf("x"), call);
        await bucket.abortMultipart(trial.key("aborted"), id, call);
        const left = await bucket.listParts(trial.key("aborted"), id, call);
        return left?.length ? "its parts are still there" : undefined;
      },
    },
    {
      operation: "delete objects",
      try: async () => {
        const listed = await bucket.list(folder, call);
        for (const entry of listed.objects) await bucket.delete(entry.key, call);
        const left = (await bucket.list(folder, call)).objects.length;
        return left === 0 ? undefined : `${left} objects are still listed`;
      },
    },
  ];
}

function steps(trial: Trial): Step[] {
  return [...objectSteps(trial), ...partSteps(trial), ...lastSteps(trial)];
}

/**
 * Yields one result per operation, and closes the bucket. Stops after the first one where the bucket cannot be
 * reached or written at all. Throws `config_invalid` where the environment lacks something, and the caller's
 * abort.
 */
export async function* probeBucket(
  bucket: Bucket,
  { signal }: Call = {},
): AsyncGenerator<Probe> {
  const folder = `svc-doctor-${crypto.randomUUID()}/`;
  try {
    await bucket.ready();
    for (const step of steps(new Trial(bucket, folder, { signal }))) {
      const needed = step.substitute === undefined;
      const { operation } = step;
      let wrong: string | undefined;
      try {
        wrong = await step.try();
      } catch (error) {
        signal?.throwIfAborted();
        const told = bucket.fail(error, operation);
        wrong = told instanceof SvcError ? told.message : String(told);
      }
      const substitute = step.substitute ? `; ${step.substitute}` : "";
      yield { operation, ok: wrong === undefined, needed, detail: wrong ? wrong + substitute : "" };
      if (wrong !== undefined && operation === "put an object") return;
    }
  } finally {
    bucket.close();
  }
}
