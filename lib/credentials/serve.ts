/** The caller's end: answers what the server asks, out of the sources that the caller itself has declared. */
import type { CredentialReply } from "../api/credentials.ts";
import { SvcError } from "../base/errors.ts";
import type { Handler } from "../wire/attached/session.ts";
import { writeLine } from "../wire/lines.ts";
import type { YamuxStream } from "../wire/yamux/stream.ts";
import type { KeptSource } from "./kept_source.ts";
import { serveUpstream, type UpstreamDelivery } from "./upstream.ts";

export interface ServeOptions {
  sources: ReadonlyMap<string, Pick<KeptSource, "get">>;
  /** The APIs that requests may be sent to, by the names of their credentials. */
  upstreams?: readonly UpstreamDelivery[];
  notice(text: string): void;
  /** Ends what is under way. */
  signal: AbortSignal;
}

/** What the server is told of a failure: our own words alone, since any other error may quote a secret. */
function reason(error: unknown, { notice }: ServeOptions, name: string): string {
  if (error instanceof SvcError) return error.message;
  notice(`credential ${name}: ${(error as Error)?.message ?? error}`);
  return `Cannot make credential ${name}: see the words at the caller`;
}

async function replyTo(name: unknown, options: ServeOptions): Promise<CredentialReply> {
  const { sources, signal } = options;
  const source = typeof name === "string" ? sources.get(name) : undefined;
  if (!source) {
    return { error: "Cannot make a credential: the caller has declared none of that name" };
  }
  try {
    const { values, expiration, renewInMs } = await source.get(signal);
    return {
      values,
      ...(expiration && { expiration: expiration.toISOString() }),
      ...(renewInMs !== undefined && { renewInMs }),
    };
  } catch (error) {
    return { error: reason(error, options, name as string) };
  }
}

/** Sends a request of the workload on, to the API that the caller's own spec names. */
async function sendOn(stream: YamuxStream, name: unknown, options: ServeOptions): Promise<void> {
  const { sources, upstreams = [], signal } = options;
  const delivery = upstreams.find(({ source }) => source === name);
  const source = delivery && sources.get(delivery.source);
  if (!source) {
    await writeLine(stream, { error: "the caller has declared no upstream of that name" });
    return await stream.closeWrite();
  }
  const get = () =>
    source.get(signal).catch((error) => {
      throw new SvcError("upstream_failed", reason(error, options, delivery.source));
    });
  await serveUpstream(stream, { delivery, get, signal });
}

/** Handles streams `credential` of the server. It can name a source, and nothing else: how values are made is the caller's. */
export function serveCredentials(options: ServeOptions): Handler {
  return async (stream, { name, upstream }) => {
    if (upstream === true) return await sendOn(stream, name, options);
    await writeLine(stream, await replyTo(name, options));
    await stream.closeWrite();
  };
}
