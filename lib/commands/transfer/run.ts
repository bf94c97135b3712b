/** The part that `svc push` and `svc pull` share; only their arguments differ. */
import { asSvcError, SvcError, systemCode } from "../../base/errors.ts";
import type { Io } from "../../base/terminal.ts";
import type { Invocation } from "../command.ts";
import { openConnection } from "../connect.ts";
import type { OutputMode } from "../options.ts";
import { copyImage } from "../../transfer/copy.ts";
import {
  jsonReporter,
  plainReporter,
  quietReporter,
  type Reporter,
  type Result,
} from "./events.ts";
import { defaultDestination, openSink, openSource } from "../../transfer/open.ts";
import type { PUSH_OPTIONS } from "./options.ts";
import { formatPlace, type Place } from "../../transfer/place.ts";
import { makePlan } from "../../transfer/plan.ts";
import { lastWords } from "../../remote/transport.ts";
import { Registries } from "../../transfer/registries.ts";

export interface Words {
  source: Place;
  /** Absent: the server's registry, under the image's own name. */
  destination?: Place;
}

type TransferInvocation = Pick<
  Invocation<typeof PUSH_OPTIONS>,
  "values" | "env" | "io" | "sources"
>;

async function openReporter(mode: OutputMode, quiet: boolean, io: Io): Promise<Reporter> {
  if (mode === "json") return jsonReporter(io);
  if (quiet) return quietReporter();
  const fancy = mode === "fancy" || (mode === "auto" && io.stderr.size() !== undefined);
  if (!fancy) return plainReporter(io);
  const { FancyReporter } = await import("./fancy.ts");
  return new FancyReporter(io.stderr);
}

const REASONS: Record<string, string> = {
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "the file system is read-only",
  ENOTDIR: "a part of the path is not a folder",
  EISDIR: "it is a folder",
};

/** Turns the system's error for a file into one that the person can correct. */
function refusedFile(error: unknown): SvcError | undefined {
  const why = REASONS[systemCode(error) ?? ""];
  if (!why) return undefined;
  const path = /'([^']+)'/.exec((error as Error).message)?.[1];
  return new SvcError(
    "argument_invalid",
    `Cannot move the image: ${why}${path ? `: ${path}` : ""}`,
    {
      cause: error,
      help: "check the path",
    },
  );
}

/** Adds help to the error of a host that cannot be reached; the server's error is that of every command. */
function named(error: unknown, registries: Registries, server: string): unknown {
  if (!(error instanceof SvcError)) return refusedFile(error) ?? error;
  const { code, message, detail } = error;
  const host = detail?.unreachable;
  if (code !== "upstream_failed" || typeof host !== "string") return error;
  const why = lastWords(error.cause ?? error);
  return host === registries.serverHost
    ? new SvcError("server_unreachable", `Cannot reach ${server}: ${why}`, { cause: error })
    : new SvcError(code, message, {
      cause: error,
      detail,
      help: `check the name; a registry without TLS needs --plain-http ${host}`,
    });
}

async function move(
  words: Words,
  invocation: TransferInvocation,
  registries: Registries,
  reporter: Reporter,
): Promise<Result[]> {
  const { values, io: { signal } } = invocation;
  await using source = await openSource(words.source, registries, signal);
  const destination = words.destination ?? defaultDestination(words.source, source);
  await using sink = await openSink(destination, source, registries);
  if (values.referrers && sink.single) {
    throw new SvcError("usage", "Cannot write referrers: a docker archive has no place for them", {
      help: "write an oci: or oci-archive: instead",
    });
  }
  const plan = await makePlan(source.origin, source.top, {
    ...(values.platform !== undefined && { platform: values.platform }),
    single: sink.single,
    referrers: values.referrers ?? false,
    jobs: values.jobs,
    signal,
    notice: (message) => reporter.notice(message),
  });
  reporter.plan(plan, source.origin.label, formatPlace(destination, registries.serverHost));
  try {
    const names = await copyImage(plan, source.origin, sink, {
      jobs: values.jobs,
      signal,
      reporter,
    });
    const { digest, mediaType } = plan.root.descriptor;
    const parts = [plan.root, ...plan.children, ...plan.referrers];
    const size = plan.blobs.reduce((sum, blob) => sum + blob.size, 0) +
      parts.reduce((sum, part) => sum + part.bytes.length, 0);
    return names.map((name) => ({ name, digest, mediaType, size }));
  } catch (error) {
    const kept = sink.kept?.();
    if (kept) {
      reporter.notice(`what has arrived is kept in ${kept}; the same command goes on with it`);
    }
    throw error;
  }
}

export async function transfer(
  words: Words,
  invocation: TransferInvocation,
  given?: Reporter,
): Promise<number> {
  const { values, env, io } = invocation;
  const mode = values.output as OutputMode;
  const quiet = values.quiet ?? false;
  const { target: { server }, way, credentials } = await openConnection(invocation);
  const registries = new Registries({
    server,
    way,
    token: credentials.token.bind(credentials),
    env,
    plainHTTP: values.plainHTTP ?? [],
    signal: io.signal,
  });
  let results: Result[];
  {
    await using reporter = given ?? await openReporter(mode, quiet, io);
    try {
      results = await move(words, invocation, registries, reporter);
    } catch (error) {
      if (io.signal.aborted) throw io.signal.reason;
      const shown = named(error, registries, server);
      reporter.failed(asSvcError(shown));
      throw shown;
    }
  }
  for (const result of results) {
    const text = mode === "json"
      ? JSON.stringify({ type: "result", ...result })
      : quiet
      ? result.digest
      : `${result.name}@${result.digest}`;
    await io.stdout.write(text + "\n");
  }
  return 0;
}
