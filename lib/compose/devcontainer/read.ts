/** Finds and reads a devcontainer.json (containers.dev, "Dev Container metadata reference"). */
import { createHash } from "node:crypto";
import { basename, dirname, join, posix } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { suggestion } from "../../base/nearest.ts";
import { Files, isFile } from "../files.ts";
import { parseJsonc } from "./jsonc.ts";

/** A line for a shell, words of one command, or several of these at the same time. */
export type Command = string | string[] | Record<string, string | string[]>;

export const LIFECYCLE = [
  "onCreateCommand",
  "updateContentCommand",
  "postCreateCommand",
  "postStartCommand",
  "postAttachCommand",
] as const;
export type Lifecycle = typeof LIFECYCLE[number];

/** The fields that are heeded, their variables written out. */
export interface Fields {
  image?: string;
  build?: {
    dockerfile?: string;
    context?: string;
    args?: Record<string, string>;
    target?: string;
    cacheFrom?: string | string[];
  };
  dockerFile?: string;
  context?: string;
  dockerComposeFile?: string | string[];
  service?: string;
  runServices?: string[];
  features?: Record<string, string | boolean | Record<string, string | boolean>>;
  overrideFeatureInstallOrder?: string[];
  workspaceFolder?: string;
  workspaceMount?: string;
  mounts?: (string | { type?: string; source?: string; target: string; read_only?: boolean })[];
  forwardPorts?: (number | string)[];
  appPort?: number | string | (number | string)[];
  containerEnv?: Record<string, string>;
  remoteEnv?: Record<string, string | null>;
  containerUser?: string;
  remoteUser?: string;
  overrideCommand?: boolean;
  init?: boolean;
  privileged?: boolean;
  capAdd?: string[];
  securityOpt?: string[];
  runArgs?: string[];
  initializeCommand?: Command;
  onCreateCommand?: Command;
  updateContentCommand?: Command;
  postCreateCommand?: Command;
  postStartCommand?: Command;
  postAttachCommand?: Command;
}

/** What editors and other tools heed, and what has no meaning for a server. */
const PASSED_OVER = [
  ...["$schema", "name", "customizations", "portsAttributes", "otherPortsAttributes", "secrets"],
  ...["shutdownAction", "waitFor", "userEnvProbe", "updateRemoteUserUID", "hostRequirements"],
  ...["extensions", "settings", "devPort"],
];

type Kind = "text" | "list" | "map" | "flag" | "any";

export const HEEDED: Record<keyof Fields, Kind> = {
  image: "text",
  build: "map",
  dockerFile: "text",
  context: "text",
  dockerComposeFile: "any",
  service: "text",
  runServices: "list",
  features: "map",
  overrideFeatureInstallOrder: "list",
  workspaceFolder: "text",
  workspaceMount: "text",
  mounts: "list",
  forwardPorts: "list",
  appPort: "any",
  containerEnv: "map",
  remoteEnv: "map",
  containerUser: "text",
  remoteUser: "text",
  overrideCommand: "flag",
  init: "flag",
  privileged: "flag",
  capAdd: "list",
  securityOpt: "list",
  runArgs: "list",
  initializeCommand: "any",
  onCreateCommand: "any",
  updateContentCommand: "any",
  postCreateCommand: "any",
  postStartCommand: "any",
  postAttachCommand: "any",
};

export interface Devcontainer {
  /** Absolute. */
  file: string;
  /** The folder that is worked in, absolute. */
  workspace: string;
  /** The same inside the container. */
  workspaceFolder: string;
  /** The service that is worked in. */
  service: string;
  fields: Fields;
  /** False: it was found where nobody asked for one; then nothing of it runs on this machine. */
  asked: boolean;
  warnings: string[];
  /** What says commands of its life, in the order in which these run: images, features, the file. */
  commands: readonly Partial<Record<Lifecycle, Command>>[];
  /** Lines for a shell that run before the container's process. */
  entrypoints: readonly string[];
  /** The words of the container's own process; absent: they are not known yet. */
  process?: readonly string[];
  /** Writes out variables in what an image or a feature says; none of the caller's environment. */
  substitute<T>(value: T): T;
}

/** The file of this folder or one above; undefined where there is none. */
export async function findDevcontainer(start: string): Promise<string | undefined> {
  for (let folder = start;; folder = dirname(folder)) {
    const usual = [
      join(folder, ".devcontainer/devcontainer.json"),
      join(folder, ".devcontainer.json"),
    ];
    for (const path of usual) if (await isFile(path)) return path;
    if (folder === dirname(folder)) return undefined;
  }
}

/** The folder that a devcontainer.json is about. */
function workspaceOf(file: string): string {
  for (let folder = dirname(file); folder !== dirname(folder); folder = dirname(folder)) {
    if (basename(folder) === ".devcontainer") return dirname(folder);
  }
  return dirname(file);
}

const kindOf = (value: unknown) =>
  Array.isArray(value)
    ? "list"
    : value === null
    ? "nothing"
    : typeof value === "object"
    ? "map"
    : typeof value === "boolean"
    ? "flag"
    : typeof value === "string"
    ? "text"
    : typeof value;

export function pick<T extends object, K extends keyof T>(of: T, keys: readonly K[]): Pick<T, K> {
  const there = keys.filter((key) => Object.hasOwn(of, key));
  return Object.fromEntries(there.map((key) => [key, of[key]])) as Pick<T, K>;
}

const invalid = (file: string, what: string) =>
  new SvcError("compose_invalid", `Cannot read ${file}: ${what}`);

/** The known fields of a mapping. Throws `compose_invalid` for one of another kind. */
export function fieldsOf(
  raw: unknown,
  kinds: Readonly<Record<string, Kind>>,
  file: string,
): Fields {
  if (kindOf(raw) !== "map") throw invalid(file, "expected a mapping of fields");
  const fields = pick(raw as Record<string, unknown>, Object.keys(kinds));
  for (const [key, value] of Object.entries(fields)) {
    if (kinds[key] === "any" || kindOf(value) === kinds[key]) continue;
    throw invalid(file, `${key}: expected ${kinds[key]}, got ${kindOf(value)}`);
  }
  for (const [name, value] of Object.entries(fields.containerEnv ?? {})) {
    // In Compose a variable without a value is the caller's own.
    if (value === null) throw invalid(file, `containerEnv.${name}: it has no value`);
  }
  return fields;
}

/** Writes out `${localEnv:NAME:default}` and its like everywhere in a value. `containerEnv` stays for later. */
export function substituted<T>(
  value: T,
  variables: (name: string, of: string[]) => string | undefined,
): T {
  if (typeof value === "string") {
    return value.replace(
      /\$\{([A-Za-z]+)(?::([^{}]*))?\}/g,
      (whole, name, rest) => variables(name, rest === undefined ? [] : splitFirst(rest)) ?? whole,
    ) as T;
  }
  if (Array.isArray(value)) return value.map((one) => substituted(one, variables)) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [key, substituted(one, variables)]),
  ) as T;
}

function splitFirst(text: string): string[] {
  const at = text.indexOf(":");
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

/** Reads the file. Throws `compose_invalid`. */
export async function readDevcontainer(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  { asked }: Pick<Devcontainer, "asked">,
): Promise<Devcontainer> {
  const all = parseJsonc(await new Files().text(file), file);
  const raw = fieldsOf(all, HEEDED, file);
  const known = Object.keys(HEEDED);
  const warnings = Object.keys(all as object)
    .filter((key) => !known.includes(key) && !PASSED_OVER.includes(key))
    .map((key) => `${file}: ${key} is no known field${suggestion(key, known)}, and is ignored`);
  const workspace = workspaceOf(file);
  const name = basename(workspace);
  const values = new Map([
    ["localWorkspaceFolder", workspace],
    ["localWorkspaceFolderBasename", name],
    ["devcontainerId", createHash("sha256").update(file).digest("hex").slice(0, 32)],
  ]);
  const within = (env: Readonly<Record<string, string | undefined>>) => <T>(value: T): T =>
    substituted(
      value,
      (key, [variable, standard = ""]) =>
        key === "localEnv" || key === "env" ? env[variable] ?? standard : values.get(key),
    );
  const local = within(env);
  const workspaceFolder = local(raw.workspaceFolder) ??
    (raw.dockerComposeFile ? "/" : `/workspaces/${name}`);
  values.set("containerWorkspaceFolder", workspaceFolder);
  values.set("containerWorkspaceFolderBasename", posix.basename(workspaceFolder));
  const fields = local(raw);
  if (fields.dockerComposeFile && !fields.service) {
    throw invalid(file, "dockerComposeFile needs the service to work in");
  }
  if (
    !fields.dockerComposeFile && !fields.image && !fields.build?.dockerfile && !fields.dockerFile
  ) {
    throw invalid(file, "it names neither image, build.dockerfile nor dockerComposeFile");
  }
  if (!workspaceFolder.startsWith("/")) {
    throw invalid(file, "workspaceFolder: expected an absolute path");
  }
  return {
    ...{ file, workspace, workspaceFolder, fields, warnings, asked },
    service: fields.service ?? "devcontainer",
    ...{ commands: [fields], entrypoints: [], substitute: within({}) },
  };
}
