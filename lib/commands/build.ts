/** `svc build`: exports or sends the context to the server, and shows the server's events as they come. */
import type { BuildEvent, BuildResult } from "../api/build.ts";
import { parseEntitlement } from "../api/build_entitlements.ts";
import { toProblem } from "../api/problem.ts";
import { SvcError } from "../base/errors.ts";
import { writeFileAtomic } from "../base/fs.ts";
import { asIs, type Io } from "../base/terminal.ts";
import { problemError } from "../client/problems.ts";
import { parseReference } from "../oci/reference.ts";
import { addCaches, cachesOf, storeCaches } from "./build/caches.ts";
import { openContext } from "./build/context.ts";
import { renderFailure } from "./build/failure.ts";
import { agentsOf, contextsOf, secretsOf } from "./build/inputs.ts";
import { loginsFor } from "./build/logins.ts";
import { buildTarget } from "./build/target.ts";
import { sendBuild } from "./build/session.ts";
import { BuildProgress } from "./build/progress.ts";
import type { Invocation } from "./command.ts";
import { formatOutput, type OutputSpec } from "../api/build_output.ts";
import { formatAttest } from "../api/build_attest.ts";
import { attestationsOf } from "./build/outputs.ts";
import { deliver, metadataOf, modeOf, outputsOf, takesStdout, writing } from "./build/outputs.ts";
import type { BUILD_OPTIONS, OutputMode } from "./options.ts";
import { parsePairs } from "./pairs.ts";
import { terminalPrompt } from "./prompt.ts";

type Values = Invocation<typeof BUILD_OPTIONS>["values"];

/** Shows events; disposed of after the last event, also when the build failed. */
interface Progress extends AsyncDisposable {
  event(event: BuildEvent): void | Promise<void>;
}

function checkTags(tags: readonly string[]): void {
  for (const tag of tags) {
    if (parseReference(tag).digest === undefined) continue;
    throw new SvcError(
      "reference_invalid",
      `Cannot publish as ${JSON.stringify(tag)}: a digest is what a build results in`,
      { help: "write it as [host[:port]/]name[:tag]" },
    );
  }
}

function buildQuery(
  values: Values,
  tags: readonly string[],
  env: Invocation["env"],
  outputs: readonly OutputSpec[],
): URLSearchParams {
  const params = new URLSearchParams();
  for (const tag of tags) params.append("t", tag);
  if (values.target !== undefined) params.set("target", values.target);
  if (values.platform !== undefined) params.set("platform", values.platform);
  if (values.noCache) params.set("nocache", "true");
  if (values.reproducible) params.set("reproducible", "true");
  const pairs = (texts: readonly string[] | undefined, flag: string) =>
    Object.entries(parsePairs(texts, flag, env)).map(([key, value]) => `${key}=${value}`);
  // As with buildx, the build takes over the SOURCE_DATE_EPOCH of this shell.
  const given = env.SOURCE_DATE_EPOCH && "SOURCE_DATE_EPOCH";
  const buildArgs = [...given ? [given] : [], ...values.buildArgs ?? []];
  for (const pair of pairs(buildArgs, "--build-arg")) params.append("buildarg", pair);
  for (const pair of pairs(values.labels, "--label")) params.append("label", pair);
  for (const output of outputs) params.append("output", formatOutput(output));
  for (const spec of attestationsOf(values)) params.append("attest", formatAttest(spec));
  for (const text of values.annotations ?? []) params.append("annotation", text);
  for (const host of values.addHosts ?? []) params.append("addhost", host);
  for (const right of values.allow ?? []) {
    parseEntitlement(right);
    params.append("allow", right);
  }
  if (values.pull) params.set("pull", "true");
  if (values.network !== undefined) params.set("network", values.network);
  return params;
}

function chooseMode(values: Values, io: Io): OutputMode {
  const asked = (values.progress ?? modeOf(values) ?? values.output) as OutputMode;
  if (asked === "json" || asked === "plain") return asked;
  return io.stderr.size() ? "fancy" : "plain";
}

async function openProgress(
  mode: OutputMode,
  quiet: boolean,
  state: BuildProgress,
  { io, env }: Pick<Invocation, "io" | "env">,
): Promise<Progress> {
  const nothing = async () => {};
  if (mode === "json") {
    return {
      async event(event) {
        state.apply(event);
        await io.stdout.write(JSON.stringify(event) + "\n");
      },
      [Symbol.asyncDispose]: nothing,
    };
  }
  if (quiet) return { event: (event) => void state.apply(event), [Symbol.asyncDispose]: nothing };
  if (mode === "fancy") {
    const { FancyProgress } = await import("./build/fancy.ts");
    return new FancyProgress(state, io.stderr, { colour: !env.NO_COLOR });
  }
  const { PlainProgress } = await import("./build/plain.ts");
  const plain = new PlainProgress(state);
  return {
    async event(event) {
      const text = plain.lines(event).map((line) => line + "\n").join("");
      if (text) await io.stderr.write(asIs(text));
    },
    [Symbol.asyncDispose]: nothing,
  };
}

function readable(event: BuildEvent, shown: (text: string) => string): BuildEvent {
  if (event.type !== "failed" && event.type !== "warning") return event;
  return { ...event, message: shown(event.message) };
}

/** The names with their digest, one a line; only the digest if there is no name or `-q` is given. */
function resultText(result: BuildResult, quiet: boolean): string {
  const names = quiet ? [] : result.names.map((name) => `${name}@${result.digest}`);
  const lines = names.length > 0 ? names : result.digest === "" ? [] : [result.digest];
  return lines.map((line) => line + "\n").join("");
}

async function writeFiles(values: Values, result: BuildResult): Promise<void> {
  const { metadataFile, iidFile } = values;
  if (metadataFile !== undefined) {
    const text = JSON.stringify(metadataOf(result), null, 2) + "\n";
    await writing(metadataFile, () => writeFileAtomic(metadataFile, text));
  }
  if (iidFile !== undefined) {
    const id = result.platforms ? result.digest : result.imageId;
    await writing(iidFile, () => writeFileAtomic(iidFile, id));
  }
}

/** Shows a build's events until its result. Throws the build's error after it was shown. */
async function follow(
  events: AsyncIterable<BuildEvent>,
  { mode, context, invocation }: {
    mode: OutputMode;
    context: Awaited<ReturnType<typeof openContext>>;
    invocation: Invocation<typeof BUILD_OPTIONS>;
  },
): Promise<BuildResult> {
  const { io: { stderr }, values: { quiet = false } } = invocation;
  const state = new BuildProgress();
  try {
    await using progress = await openProgress(mode, quiet, state, invocation);
    for await (const event of events) {
      await progress.event(mode === "json" ? event : readable(event, context.shown));
    }
    if (state.error) throw problemError(state.error);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    // A build that is refused before its first event is reported like one that failed later.
    if (mode !== "json") {
      await stderr.write(
        renderFailure({ problem: toProblem(error), state, dockerfile: context.source }),
      );
    }
    const { code, message, help, detail } = error;
    throw new SvcError(code, context.shown(message), { help, detail, cause: error });
  }
  if (state.result) return state.result;
  throw new SvcError(
    "upstream_failed",
    "Cannot tell how the build ended: the server closed the connection",
    { help: "see the server's log" },
  );
}

export async function run(invocation: Invocation<typeof BUILD_OPTIONS>): Promise<number> {
  const { io, values, env, positionals: [directory] } = invocation;
  checkTags(values.tags ?? []);
  const outputs = outputsOf(values, io);
  const caches = cachesOf(values);
  const { client, tags } = await buildTarget(invocation, values);
  const query = buildQuery(values, tags, env, outputs);
  const named = contextsOf(values.contexts);
  await addCaches(client, caches, query, io);
  for (const text of named.elsewhere) query.append("buildcontext", text);
  const inputs = {
    contexts: named.folders,
    lazy: values.lazy ?? false,
    secrets: secretsOf(values.secrets, env),
    agents: await agentsOf(values.ssh, env, terminalPrompt(io, env)),
  };
  const context = await openContext(directory, values.file, io);
  query.set("dockerfile", context.dockerfile);
  if (context.url !== undefined) query.set("remote", context.url);
  const mode = chooseMode(values, io);
  if (mode === "json" && takesStdout(outputs)) {
    throw new SvcError("usage", "Cannot write an archive to standard output: the events go there", {
      help: "name a file with dest=, or choose another --progress",
    });
  }
  const logins = await loginsFor({
    server: client.server,
    names: [
      ...tags,
      ...outputs.flatMap(({ names }) => names),
      ...[...caches.from, ...caches.to].flatMap(({ ref }) => ref ?? []),
    ],
    dockerfile: context.source.text,
    env,
    io,
  });
  const events = sendBuild({ client, query, context, io, logins, ...inputs });
  const result = await follow(events, { mode, context, invocation });
  await deliver(client, outputs, result, io);
  await storeCaches(client, caches, result);
  await writeFiles(values, result);
  if (mode === "json") return 0;
  const text = resultText(result, values.quiet ?? false);
  await (takesStdout(outputs) ? io.stderr : io.stdout).write(text);
  return 0;
}
