/** `attach`, `logs` and `resize`. */
import { parseDetachKeys } from "../../base/detach_keys.ts";
import type { DeploymentStatus } from "../../api/deployment.ts";
import { printedBytes } from "../../api/log_bytes.ts";
import { isAbort } from "../../base/errors.ts";
import { getDeployment, readLogs } from "../../client/deployments.ts";
import { attachMain } from "../../client/exec.ts";
import type { Duplex } from "../../wire/duplex.ts";
import type { DockerApi } from "../api.ts";
import { invalid, isCode } from "../errors.ts";
import { timeOf } from "../filters.ts";
import { isUp, type Seen } from "./seen.ts";
import {
  DETACH_KEYS,
  framed,
  inputOf,
  loggedBytes,
  RemoteTerminal,
  resizeBy,
  sizeOf,
  streamType,
} from "./streams.ts";
import type { Answer, Call } from "../request.ts";

const isTty = ({ record }: Seen) => record.config.Tty === true;

function terminalOf(api: DockerApi, { record }: Seen): RemoteTerminal {
  const all = api.containers.terminals;
  const known = all.get(record.id) ?? new RemoteTerminal(sizeOf(record.hostConfig.ConsoleSize));
  all.set(record.id, known);
  return known;
}

export async function resize(call: Call, api: DockerApi): Promise<Answer> {
  const seen = await api.containers.find(call.params.id, call.signal);
  resizeBy(call, terminalOf(api, seen));
  return {};
}

/** Where the output of this start begins; undefined: nothing was printed before. */
function beginning({ instances: [instance] }: DeploymentStatus, before: string | undefined) {
  const [end, start] = [before, instance?.startedAt].map((text) => Date.parse(text ?? ""));
  if (Number.isNaN(end)) return undefined;
  // Last lines are read shortly after an end, first ones shortly before a start is told.
  return new Date((end + Math.max(end, start || end)) / 2);
}

interface Attached {
  call: Call;
  api: DockerApi;
  seen: Seen;
  shows: { stdout: boolean; stderr: boolean };
  stdin: boolean;
  keys: string;
}

interface Live {
  /** Sends the answer's head at the first call. */
  take: () => Promise<Duplex>;
  show: (stream: "stdout" | "stderr", data: Uint8Array) => Promise<void>;
  /** Absent: no keys detach. */
  keys?: string;
  terminal?: RemoteTerminal;
}

/** Passes the process's output and the client's input on. Undefined: the server or the client let go of it. */
async function live(
  { api, call, seen: { record }, stdin }: Attached,
  { take, show, keys, terminal }: Live,
): Promise<number | undefined> {
  const left = new AbortController();
  const signal = AbortSignal.any([call.signal, left.signal]);
  const size = terminal?.size();
  const { deployment, instance } = record;
  try {
    return await attachMain(api.client(signal), deployment, { instance, stdin, size }, {
      signal,
      onReady: async () => void await take(),
      onOutput: show,
      onStart: async ({ stdin: takes }) => {
        const connection = await take();
        const input = takes ? inputOf(connection, keys, () => left.abort()) : undefined;
        return { stdin: input, terminal, ...terminal && { onInputEnd: () => false } };
      },
    });
  } catch (error) {
    if (left.signal.aborted) return undefined;
    throw error;
  }
}

/** Everything of a terminal goes straight through. */
async function onTerminal(attached: Attached): Promise<void> {
  const { call, api, seen, keys, shows } = attached;
  let connection: Duplex | undefined;
  const take = async () => connection ??= await call.take({ type: streamType(call, true) });
  const show: Live["show"] = async (_stream, data) => {
    if (shows.stdout || shows.stderr) await (await take()).write(data);
  };
  try {
    await live(attached, { take, show, keys, terminal: terminalOf(api, seen) });
  } catch (error) {
    if (!connection) throw error;
    if (!call.signal.aborted && !isAbort(error)) {
      api.warn(`attach ${seen.record.name}: ${(error as Error).message}`);
    }
  }
  // One that ended before it could be attached to.
  if (!connection && !isUp(seen.instance)) await take();
  await connection?.closeWrite();
}

type Count = Record<"stdout" | "stderr", number>;

/** The log's bytes without those that were shown already: `count` of each stream. */
async function showLog(
  { call, api, seen, shows }: Attached,
  connection: Duplex,
  { count, signal }: { count: Count; signal: AbortSignal },
): Promise<void> {
  const { record, instance } = seen;
  const logs = call.flag("logs");
  const running = isUp(instance);
  if (!running && !logs) await api.containers.life.started(seen, signal);
  // An earlier start's output is not this one's.
  const status = await getDeployment(api.client(signal), record.deployment);
  const since = running || logs ? undefined : beginning(status, instance?.finishedAt);
  const frames = readLogs(api.client(signal), record.deployment, {
    follow: call.flag("stream", true),
    instance: record.instance,
    ...since && { since },
  });
  for await (const frame of frames) {
    const { stream } = frame;
    const bytes = printedBytes(frame);
    const known = Math.min(count[stream], bytes.length);
    count[stream] -= known;
    if (!shows[stream] || known === bytes.length) continue;
    await connection.write(framed(stream, bytes.subarray(known)));
  }
}

/**
 * Shows what the process prints as it comes. True where all was shown; false where nobody was attached before the
 * process ended, or the server let go of it.
 */
async function follow(
  attached: Attached,
  take: () => Promise<Duplex>,
  count: Count,
): Promise<boolean> {
  const { call, seen, shows } = attached;
  const show: Live["show"] = async (stream, data) => {
    const connection = await take();
    if (shows[stream]) await connection.write(framed(stream, data));
    count[stream] += data.length;
  };
  try {
    return await live(attached, { take, show }) !== undefined;
  } catch (error) {
    // A running one that cannot be attached to is the client's affair.
    if (call.signal.aborted || isUp(seen.instance)) throw error;
    return false;
  }
}

/** Without a terminal: live, and the rest from the log, which has the output to its last byte. */
async function onPipes(attached: Attached): Promise<void> {
  const { call, api, seen } = attached;
  const { record } = seen;
  let connection: Duplex | undefined;
  const take = async () => connection ??= await call.take({ type: streamType(call, false) });
  const count = { stdout: 0, stderr: 0 };
  const { signal } = call;
  const show = async () => {
    const isLive = call.flag("stream", true) && !call.flag("logs");
    if (isLive && await follow(attached, take, count)) return;
    await showLog(attached, await take(), { count, signal });
  };
  const shown = show();
  api.containers.life.reading(record.id, shown);
  try {
    await shown;
  } catch (error) {
    if (!connection) throw error;
    const gone = isAbort(error) || isCode(error, "not_found");
    if (!signal.aborted && !gone) {
      const text = new TextEncoder().encode(`svc: ${(error as Error).message}\n`);
      await connection.write(framed("stderr", text)).catch(() => {});
    }
  }
  await connection?.closeWrite().catch(() => {});
}

export async function attach(call: Call, api: DockerApi): Promise<void> {
  const seen = await api.containers.find(call.params.id, call.signal);
  const keys = call.query.get("detachKeys") || DETACH_KEYS;
  parseDetachKeys(keys);
  for await (const _ of call.upgrade ? call.body() : []);
  const attached: Attached = {
    ...{ call, api, seen },
    shows: { stdout: call.flag("stdout"), stderr: call.flag("stderr") },
    stdin: call.flag("stdin") && seen.record.config.OpenStdin === true,
    keys,
  };
  api.containers.life.tell(seen.record, "attach");
  await (isTty(seen) ? onTerminal(attached) : onPipes(attached));
}

export async function logs(call: Call, api: DockerApi): Promise<Answer> {
  const seen = await api.containers.find(call.params.id, call.signal);
  const { record } = seen;
  const shows = { stdout: call.flag("stdout"), stderr: call.flag("stderr") };
  if (!shows.stdout && !shows.stderr) {
    throw invalid("Bad parameters: you must choose at least one stream");
  }
  const tail = call.query.get("tail");
  const [since, until] = ["since", "until"].map((name) => {
    const text = call.query.get(name);
    return text && text !== "0" ? new Date(timeOf(text)) : undefined;
  });
  const tty = isTty(seen);
  const timestamps = call.flag("timestamps");
  const frames = readLogs(api.client(call.signal), record.deployment, {
    follow: call.flag("follow") && isUp(seen.instance),
    ...tail && tail !== "all" && Number(tail) >= 0 && { tail: Number(tail) },
    ...{ since, until, instance: record.instance },
  });
  return {
    headers: { "content-type": streamType(call, tty) },
    stream: (async function* () {
      for await (const frame of frames) {
        if (shows[frame.stream]) yield loggedBytes(frame, { tty, timestamps });
      }
    })(),
  };
}
