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
  mounts?: (string | { type?: string; source?: string; target: string })[];
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

const HEEDED: Record<keyof Fields, "text" | "list" | "map" | "flag" | "any"> = {
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
export function workspaceOf(file: string): string {
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

function check(
  raw: unknown,
  file: string,
): { fields: Record<string, unknown>; warnings: string[] } {
  const invalid = (what: string) => new SvcError("compose_invalid", `Cannot read ${file}: ${what}`);
  if (kindOf(raw) !== "map") throw invalid("expected a mapping of fields");
  const fields: Record<string, unknown> = {};
  const warnings: string[] = [];
  for (const [key, value] of Object.entries(raw as object)) {
    if (PASSED_OVER.includes(key)) continue;
    if (!Object.hasOwn(HEEDED, key)) {
      warnings.push(
        `${file}: ${key} is no known field${suggestion(key, Object.keys(HEEDED))}, and is ignored`,
      );
      continue;
    }
    const wanted = HEEDED[key as keyof Fields];
    if (wanted !== "any" && kindOf(value) !== wanted) {
      throw invalid(`${key}: expected ${wanted}, got ${kindOf(value)}`);
    }
    fields[key] = value;
  }
  return { fields, warnings };
}

/** Writes out `${localEnv:NAME:default}` and its like everywhere in a value. `containerEnv` stays for later. */
export function substituted<T>(
  value: T,
  variables: (name: string, of: string[]) => string | undefined,
): T {
  if (typeof value === "string") {
    return value.replace(
      /\$\{([A-Za-z]+)(?::([^}]*))?\}/g,
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
  const { fields: raw, warnings } = check(parseJsonc(await new Files().text(file), file), file);
  const workspace = workspaceOf(file);
  const name = basename(workspace);
  const values: Record<string, string> = {
    localWorkspaceFolder: workspace,
    localWorkspaceFolderBasename: name,
    devcontainerId: createHash("sha256").update(file).digest("hex").slice(0, 32),
  };
  const local = (key: string, [variable, standard = ""]: string[]) =>
    key === "localEnv" || key === "env" ? env[variable] ?? standard ?? "" : values[key];
  const given = raw.workspaceFolder as string | undefined;
  const workspaceFolder = substituted(given, local) ??
    (raw.dockerComposeFile ? "/" : `/workspaces/${name}`);
  values.containerWorkspaceFolder = workspaceFolder;
  values.containerWorkspaceFolderBasename = posix.basename(workspaceFolder);
  const fields = substituted(raw as Fields, local);
  const invalid = (what: string) => new SvcError("compose_invalid", `Cannot read ${file}: ${what}`);
  if (fields.dockerComposeFile && !fields.service) {
    throw invalid("dockerComposeFile needs the service to work in");
  }
  if (
    !fields.dockerComposeFile && !fields.image && !fields.build?.dockerfile && !fields.dockerFile
  ) {
    throw invalid("it names neither image, build.dockerfile nor dockerComposeFile");
  }
  if (!workspaceFolder.startsWith("/")) throw invalid("workspaceFolder: expected an absolute path");
  return {
    ...{ file, workspace, workspaceFolder, fields, warnings, asked },
    service: fields.service ?? "devcontainer",
  };
}
