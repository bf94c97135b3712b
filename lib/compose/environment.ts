/** The variables of a project: the caller's, those of .env files, and those of a service's env files. */
import { readDotenv, readRawEnv } from "./dotenv.ts";
import type { Files } from "./files.ts";
import { isFile } from "./files.ts";
import { Problem } from "./problem.ts";
import type { EnvFile, Service } from "./service.ts";

type Warn = (text: string) => void;

export const unsetWarning = (warn: Warn) => (name: string) =>
  warn(`The "${name}" variable is not set. Defaulting to a blank string.`);

/** What .env files say; `current` comes before them where their values name variables. */
export async function envOfFiles(
  files: readonly string[],
  current: ReadonlyMap<string, string>,
  reader: Files,
  warn: Warn,
): Promise<Map<string, string>> {
  const values = new Map<string, string>();
  for (const file of files) {
    const text = await reader.text(file);
    readDotenv(text, file, values, (name) => current.get(name), unsetWarning(warn));
  }
  return values;
}

async function readEnvFile(
  { path, required, format }: EnvFile,
  values: Map<string, string>,
  lookup: (name: string) => string | undefined,
  files: Files,
  at: string[],
  warn: Warn,
): Promise<void> {
  if (!await isFile(path)) {
    if (!required) return;
    throw new Problem(at, `env file ${path} is not there`, "make it, or set `required: false`");
  }
  const text = await files.text(path);
  if (format === "raw") return readRawEnv(text, path, values, lookup);
  if (format !== undefined) {
    throw new Problem(at, `${JSON.stringify(format)} is no format of an env file`);
  }
  readDotenv(text, path, values, lookup, unsetWarning(warn));
}

/** Puts what a service's env files say below its own environment, and drops their names. */
export async function resolveServiceEnvironment(
  name: string,
  service: Service,
  environment: Readonly<Record<string, string>>,
  files: Files,
  warn: Warn,
): Promise<void> {
  const own = service.environment ?? {};
  for (const [key, value] of Object.entries(own)) {
    if (value === null && Object.hasOwn(environment, key)) own[key] = environment[key];
  }
  const values = new Map(
    Object.entries(own).filter((entry): entry is [string, string] => entry[1] !== null),
  );
  const lookup = (key: string) =>
    Object.hasOwn(environment, key) ? environment[key] : own[key] ?? undefined;
  for (const [index, file] of (service.env_file ?? []).entries()) {
    const path = ["services", name, "env_file", String(index)];
    await readEnvFile(file, values, lookup, files, path, warn);
  }
  const result: Record<string, string | null> = Object.create(null);
  for (const [key, value] of values) result[key] = value;
  for (const [key, value] of Object.entries(own)) result[key] = value;
  delete service.env_file;
  if (Object.keys(result).length > 0) service.environment = result;
}

/** Puts what a service's label files say below its own labels, and drops their names. */
export async function resolveServiceLabels(
  name: string,
  service: Service,
  files: Files,
  warn: Warn,
): Promise<void> {
  if (!service.label_file) return;
  const values = new Map<string, string>();
  for (const [index, path] of service.label_file.entries()) {
    const at = ["services", name, "label_file", String(index)];
    if (!await isFile(path)) throw new Problem(at, `label file ${path} is not there`);
    const own = new Map<string, string>();
    readDotenv(await files.text(path), path, own, (key) => values.get(key), unsetWarning(warn));
    for (const [key, value] of own) values.set(key, value);
  }
  const labels: Record<string, string> = Object.create(null);
  for (const [key, value] of values) labels[key] = value;
  Object.assign(labels, service.labels);
  delete service.label_file;
  if (Object.keys(labels).length > 0) service.labels = labels;
}
