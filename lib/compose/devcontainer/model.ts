/** What a devcontainer.json is as a Compose project: files, and texts that stand for files. */
import { basename, dirname, join, resolve } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { projectNameOf } from "../locate.ts";
import type { LoadOptions } from "../project.ts";
import type { Devcontainer, Fields } from "./read.ts";

type Json = Record<string, unknown>;

/** Waits; it ends at once when it is asked to. */
const [ENDING, IDLE] = ["trap 'exit 0' TERM INT", "while :; do sleep 86400 & wait $!; done"];

const each = <T>(value: T | T[] | undefined): T[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value];

function refused(file: string, field: string, why: string): SvcError {
  return new SvcError("unsupported", `Cannot use ${file}: ${field}: ${why}`, {
    help: "leave it out",
  });
}

type Mount = Exclude<NonNullable<Fields["mounts"]>[number], string>;

/** A mount in the form of `docker run --mount`, or its fields. */
export function mountOf(mount: Mount | string, file: string): Mount {
  if (typeof mount !== "string") return { type: "volume", ...mount };
  const pairs = new Map(
    mount.split(",").map((part) => {
      const at = part.indexOf("=");
      return at < 0 ? [part, "true"] as const : [part.slice(0, at), part.slice(at + 1)] as const;
    }),
  );
  const target = pairs.get("target") ?? pairs.get("dst") ?? pairs.get("destination");
  if (!target) throw refused(file, "mounts", `${JSON.stringify(mount)} has no target`);
  const source = pairs.get("source") ?? pairs.get("src");
  return {
    ...{ type: pairs.get("type") ?? "volume", target },
    ...(source && { source }),
    ...((pairs.has("readonly") || pairs.has("ro")) && { read_only: true }),
  };
}

/** Flags of `docker run` that Compose has a field for. */
function runArgs(args: readonly string[], file: string): Json {
  const fields: Record<string, string[]> = {};
  const flags: Json = {};
  const words = args.flatMap((arg) =>
    /^--[\w-]+=/.test(arg)
      ? [arg.slice(0, arg.indexOf("=")), arg.slice(arg.indexOf("=") + 1)]
      : [arg]
  );
  const LISTS: Record<string, string> = {
    "--cap-add": "cap_add",
    "--security-opt": "security_opt",
    "--env": "environment",
    "-e": "environment",
    "--add-host": "extra_hosts",
    "--device": "devices",
    "--group-add": "group_add",
  };
  const TEXTS: Record<string, string> = {
    ...{ "--hostname": "hostname", "-h": "hostname", "--user": "user", "-u": "user" },
    ...{ "--shm-size": "shm_size", "--ipc": "ipc", "--pid": "pid", "--network": "network_mode" },
    ...{ "--net": "network_mode", "--memory": "mem_limit", "-m": "mem_limit", "--cpus": "cpus" },
  };
  const FLAGS: Record<string, string> = {
    ...{ "--privileged": "privileged", "--init": "init", "--read-only": "read_only" },
  };
  for (let at = 0; at < words.length; at++) {
    const word = words[at];
    if (word === "--rm" || word === "-it") continue;
    if (FLAGS[word]) flags[FLAGS[word]] = true;
    else if (LISTS[word]) (fields[LISTS[word]] ??= []).push(words[++at] ?? "");
    else if (TEXTS[word]) flags[TEXTS[word]] = words[++at];
    else throw refused(file, "runArgs", `svc has no ${word}`);
  }
  return { ...fields, ...flags };
}

const published = (port: number | string) =>
  typeof port === "number" || /^\d+$/.test(port) ? `127.0.0.1:${port}:${port}` : port;

/** Ports by service: "db:5432" is another service's. */
function portsOf({ fields, service }: Devcontainer): Map<string, string[]> {
  const ports = new Map<string, string[]>();
  const add = (name: string, port: string) => ports.set(name, [...ports.get(name) ?? [], port]);
  for (const port of fields.forwardPorts ?? []) {
    const [, host, number] = /^([^:]*[^:\d][^:]*):(\d+)$/.exec(String(port)) ?? [];
    if (host && host !== "localhost" && fields.dockerComposeFile) add(host, published(number));
    else add(service, published(number ?? port));
  }
  for (const port of each(fields.appPort)) add(service, published(port));
  return ports;
}

/** What runs: what comes before the container's own process, then that or nothing. */
function processOf({ fields, entrypoints, process = [] }: Devcontainer, composed: boolean): Json {
  const replaced = fields.overrideCommand ?? !composed;
  if (!replaced && entrypoints.length === 0) return {};
  const script = [ENDING, ...entrypoints, 'exec "$@"', IDLE].join("\n");
  // Another command, of `svc compose run`, takes the place of the process.
  return { entrypoint: ["/bin/sh", "-c", script, "-"], command: replaced ? [] : process };
}

function serviceOf(dev: Devcontainer): { service: Json; volumes: Json } {
  const { fields, file, workspace, workspaceFolder } = dev;
  const composed = fields.dockerComposeFile !== undefined;
  const mounts: Json[] = (fields.mounts ?? []).map((mount) => ({ ...mountOf(mount, file) }));
  if (!composed && fields.workspaceMount !== "") {
    mounts.unshift(
      fields.workspaceMount
        ? { ...mountOf(fields.workspaceMount, file) }
        : { type: "bind", source: workspace, target: workspaceFolder },
    );
  }
  const volumes = Object.fromEntries(
    mounts.filter(({ type, source }) => type === "volume" && source)
      .map(({ source }) => [source as string, { name: source }]),
  );
  const dockerfile = fields.build?.dockerfile ?? fields.dockerFile;
  const build = composed || !dockerfile ? undefined : {
    context: resolve(dirname(file), fields.build?.context ?? fields.context ?? "."),
    // Where it is, is said from the file's own folder, not from the context.
    dockerfile: resolve(dirname(file), dockerfile),
    ...(fields.build?.args && { args: fields.build.args }),
    ...(fields.build?.target && { target: fields.build.target }),
    ...(fields.build?.cacheFrom && { cache_from: each(fields.build.cacheFrom) }),
  };
  const service = {
    ...(build ? { build } : composed ? {} : { image: fields.image }),
    ...processOf(dev, composed),
    ...(!composed && { working_dir: workspaceFolder }),
    ...(fields.containerUser && { user: fields.containerUser }),
    ...(fields.init && { init: true }),
    ...(fields.privileged && { privileged: true }),
    ...(fields.capAdd && { cap_add: fields.capAdd }),
    ...(fields.securityOpt && { security_opt: fields.securityOpt }),
    ...runArgs(fields.runArgs ?? [], file),
    ...(mounts.length > 0 && { volumes: mounts }),
    ...(fields.containerEnv && { environment: fields.containerEnv }),
  };
  return { service, volumes };
}

/** JSON is YAML; a dollar in it is no variable of Compose. */
const written = (value: Json) => JSON.stringify(value, null, 1).replaceAll("$", "$$$$");

/** How the project is loaded. Throws `unsupported` for what svc cannot do. */
export function devcontainerOptions(dev: Devcontainer, options: LoadOptions): LoadOptions {
  const { file, fields, workspace, service: name } = dev;
  const folder = dirname(file);
  const { service, volumes } = serviceOf(dev);
  const services: Record<string, Json> = { [name]: service };
  for (const [other, ports] of portsOf(dev)) services[other] = { ...services[other], ports };
  const files = each(fields.dockerComposeFile).map((path) => resolve(folder, path));
  const named = join(folder, "devcontainer.json (name)");
  return {
    ...options,
    files: [named, ...files, file],
    projectDirectory: options.projectDirectory ?? (files[0] ? dirname(files[0]) : folder),
    texts: new Map([
      [
        named,
        written({ name: projectNameOf(`${basename(workspace)}_devcontainer`) || "devcontainer" }),
      ],
      [file, written({ services, ...(Object.keys(volumes).length > 0 && { volumes }) })],
    ]),
  };
}
