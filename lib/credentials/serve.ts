/** The caller's end: answers what the server asks, out of the sources that the caller itself has declared. */
import type { CredentialReply } from "../api/credentials.ts";
import { SvcError } from "../base/errors.ts";
import type { Handler } from "../wire/attached/session.ts";
import { writeLine } from "../wire/lines.ts";
import type { KeptSource } from "./kept_source.ts";

export interface ServeOptions {
  sources: ReadonlyMap<string, Pick<KeptSource, "get">>;
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

/** Handles streams `credential` of the server. It can name a source, and nothing else: how values are made is the caller's. */
export function serveCredentials(options: ServeOptions): Handler {
  return async (stream, { name }) => {
    await writeLine(stream, await replyTo(name, options));
    await stream.closeWrite();
  };
}
