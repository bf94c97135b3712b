/**
 * Connections that the caller of a session dials: the server opens a stream `egress` for each, whose first line
 * names host and port. The caller answers by one line, then bytes travel both ways.
 */
import { CATALOGUE, type ErrorCode, SvcError } from "../base/errors.ts";
import type { Duplex } from "../wire/duplex.ts";
import { LineReader, writeLine } from "../wire/lines.ts";
import { relay } from "../wire/relay.ts";
import { egressHost, type EgressTarget } from "./policy.ts";
import { place } from "./reach.ts";
import type { EgressDial } from "./relay.ts";

/** Bytes of the answer, at most. */
const MAX_ANSWER = 4096;

type Answer = { connected: true } | { error: { code: string; message: string } };

/** At the server: a connection on a stream that was opened with {@linkcode streamFields}. */
export async function dialledByCaller(
  stream: Duplex,
  target: EgressTarget,
  signal: AbortSignal,
): Promise<Duplex> {
  const abort = () => stream.reset(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    const lines = new LineReader(stream, MAX_ANSWER);
    const answer = await lines.line<Answer>();
    signal.throwIfAborted();
    if (Object(answer).connected !== true) throw refusal(target, answer);
    return {
      read: () => lines.read(),
      write: (bytes) => stream.write(bytes),
      closeWrite: () => stream.closeWrite(),
      reset: (why) => stream.reset(why),
      closed: stream.closed,
    };
  } catch (error) {
    stream.reset();
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** The caller's words are shown as the caller's. */
function refusal(target: EgressTarget, answer: Answer | undefined): SvcError {
  const { code, message } = Object(Object(answer).error);
  const known = typeof code === "string" && Object.hasOwn(CATALOGUE, code);
  return new SvcError(
    known ? code as ErrorCode : "upstream_failed",
    typeof message === "string"
      ? `${message} (from the caller's machine)`
      : `Cannot connect to ${place(target)}: the caller did not answer`,
  );
}

export const streamFields = ({ host, port }: EgressTarget) => ({ host, port });

/** Undefined for fields that name no target. */
function targetOf({ host, port }: Record<string, unknown>): EgressTarget | undefined {
  const known = typeof host === "string" ? egressHost(host) : undefined;
  const isPort = Number.isInteger(port) && Number(port) > 0 && Number(port) < 65536;
  return known !== undefined && isPort ? { host: known, port: Number(port) } : undefined;
}

/**
 * At the caller: answers one stream. `dial` decides itself whether the target is reached; it throws where not.
 * Resolves when the connection has ended.
 */
export async function serveEgressStream(
  stream: Duplex & { closed?: Promise<unknown> },
  fields: Record<string, unknown>,
  dial: EgressDial,
): Promise<void> {
  const gone = new AbortController();
  stream.closed?.then((why) => gone.abort(why), (why) => gone.abort(why));
  let remote: Duplex;
  try {
    const target = targetOf(fields);
    if (!target) throw new SvcError("argument_invalid", "Cannot connect: no host and port came");
    remote = await dial(target, gone.signal);
  } catch (error) {
    if (gone.signal.aborted) return stream.reset();
    const { code, message } = error instanceof SvcError
      ? error
      : { code: "upstream_failed", message: (error as Error).message };
    await writeLine(stream, { error: { code, message } });
    return await stream.closeWrite();
  }
  try {
    await writeLine(stream, { connected: true });
    await relay(stream, remote);
  } finally {
    remote.reset();
    stream.reset();
  }
}
