/**
 * Services that a program of the caller's machine provides (Compose specification, "provider"): it is run as
 * `TYPE compose --project-name=NAME up|down --OPTION=VALUE… SERVICE`, and tells what it does by lines of JSON on
 * its standard output.
 */
import { SvcError } from "../base/errors.ts";
import { startProgram } from "../base/process.ts";
import { readLines } from "../client/lines.ts";
import type { LoadedProject } from "./project.ts";
import { placeOf, refusal } from "./refusal.ts";
import type { Provider } from "./service.ts";
import { done, failing, type Report, working } from "./steps.ts";

/** A program of the PATH; a path could lead to a file of the project that nobody has looked at. */
const NAME = /^[A-Za-z0-9][\w.-]*$/;

/** Bytes of a line that a provider prints, and of all that it tells of itself, at most. */
const LONGEST = 1 << 20;

/** Characters of what it says on standard error that an error shows. */
const SHOWN = 2000;

type Verb = "up" | "down";

export interface Providing {
  loaded: LoadedProject;
  report: Report;
  signal: AbortSignal;
}

interface Parameter {
  name: string;
  required?: boolean;
}

/** Throws for a type that names no program of the PATH. */
export function checkProvider(loaded: LoadedProject, name: string, { type = "" }: Provider): void {
  if (NAME.test(type) && type !== "compose") return;
  throw refusal(
    loaded,
    ["services", name, "provider", "type"],
    `${JSON.stringify(type)} is not a valid provider type`,
    "name a program that is on PATH",
  );
}

const environmentOf = ({ project, environment }: LoadedProject) => ({
  ...environment,
  COMPOSE_PROJECT_NAME: project.name,
});

/** The options that the provider says it has for a verb; undefined: it does not tell, and gets all of them. */
async function parametersOf(
  type: string,
  verb: Verb,
  { loaded, signal }: Providing,
): Promise<Parameter[] | undefined> {
  await using child = startProgram(type, {
    ...{ args: ["compose", "metadata"], signal, cwd: loaded.directory, env: environmentOf(loaded) },
    ...{ stdin: "null", stdout: "piped", stderr: "null" },
  });
  try {
    const text = await new Response(bounded(child.stdout, { each: "stream" })).text();
    const list = JSON.parse(text)?.[verb]?.parameters;
    return (await child.status).code === 0 && Array.isArray(list) ? list : undefined;
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

async function wordsOf(name: string, verb: Verb, providing: Providing): Promise<string[]> {
  const { loaded } = providing;
  checkProvider(loaded, name, loaded.project.services[name].provider!);
  const { type = "", options = {} } = loaded.project.services[name].provider!;
  const known = await parametersOf(type, verb, providing);
  for (const parameter of known ?? []) {
    if (!parameter.required || parameter.name in options) continue;
    throw new SvcError(
      "spec_invalid",
      `Cannot use ${placeOf(loaded, ["services", name, "provider"])}: ` +
        `the provider ${type} requires the option ${parameter.name}`,
    );
  }
  const given = Object.entries(options)
    .filter(([key]) => !known || known.some((one) => one.name === key));
  return [
    ...["compose", `--project-name=${loaded.project.name}`, verb],
    ...given.flatMap(([key, values]) => values.map((value) => `--${key}=${value}`)),
    name,
  ];
}

/** Throws `deploy_failed` for a line that is no message. */
function messageOf(line: string, type: string): { type: string; message: string } {
  try {
    const { type, message } = JSON.parse(line);
    if (typeof type === "string" && typeof message === "string") return { type, message };
  } catch {
    // told below
  }
  throw new SvcError(
    "deploy_failed",
    `Cannot read what the provider ${type} says: ${
      JSON.stringify(line.slice(0, 100))
    } is no message`,
    { help: "a provider prints lines of JSON with type and message" },
  );
}

const tooLong = () =>
  new SvcError(
    "deploy_failed",
    `Cannot read what a provider says: it has more than ${LONGEST} bytes`,
  );

const NEWLINE = 10;

/** Bounds a stream's lines, or all of it, as any program of this machine may write it. */
function bounded(
  stream: ReadableStream<Uint8Array>,
  { each }: { each: "line" | "stream" },
): ReadableStream<Uint8Array> {
  let since = 0;
  return stream.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        const last = each === "line" ? chunk.lastIndexOf(NEWLINE) : -1;
        since = last < 0 ? since + chunk.length : chunk.length - last - 1;
        if (since > LONGEST) controller.error(tooLong());
        else controller.enqueue(chunk);
      },
    }),
  );
}

async function lastWords(stream: ReadableStream<Uint8Array>): Promise<string> {
  let said = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    said = (said + text).slice(-SHOWN);
  }
  return said.trim();
}

/** Runs the provider to its end. Resolves to the variables that it set, without a prefix. */
async function provide(
  name: string,
  verb: Verb,
  providing: Providing,
): Promise<Record<string, string>> {
  const { loaded, report, signal } = providing;
  const { type = "" } = loaded.project.services[name].provider!;
  const variables: Record<string, string> = {};
  const failed = (how: string) =>
    new SvcError(
      "deploy_failed",
      `Cannot ${verb === "up" ? "bring up" : "remove"} ${name}: its provider ${type} ${how}`,
      { help: "what runs is left running" },
    );
  const args = await wordsOf(name, verb, providing);
  await using child = startProgram(type, {
    ...{ args, signal, cwd: loaded.directory, env: environmentOf(loaded) },
    ...{ stdin: "null", stdout: "piped", stderr: "piped" },
  }, { help: `the service ${name} is provided by it` });
  const words = lastWords(child.stderr);
  words.catch(() => {/* thrown below */});
  for await (const line of readLines(bounded(child.stdout, { each: "line" }))) {
    if (line.trim() === "") continue;
    const { type: kind, message } = messageOf(line, type);
    if (kind === "info") working(report, name, message);
    else if (kind === "error") throw failed(`says: ${message}`);
    else if (kind === "setenv" && message.includes("=")) {
      const at = message.indexOf("=");
      variables[message.slice(0, at)] = message.slice(at + 1);
    }
  }
  const { code } = await child.status;
  signal.throwIfAborted();
  if (code === 0) return variables;
  throw failed(`exited with ${code}: ${await words}`);
}

/** Has the provider make the service. Resolves to the variables for those that depend on it. */
export async function bringUpProvided(
  name: string,
  providing: Providing,
): Promise<Record<string, string>> {
  const { report } = providing;
  working(report, name, "Creating");
  const variables = await provide(name, "up", providing).catch(failing(report, [name]));
  done(report, name, "Created");
  const prefix = name.toUpperCase();
  return Object.fromEntries(
    Object.entries(variables).map(([key, value]) => [`${prefix}_${key}`, value]),
  );
}

/** Has the provider take the service away. */
export async function removeProvided(name: string, providing: Providing): Promise<void> {
  const { report } = providing;
  working(report, name, "Removing");
  await provide(name, "down", providing).catch(failing(report, [name]));
  done(report, name, "Removed");
}
