/** The options of `svc serve`: its subsystems' tables, and the reader of all tables. */
import { nearest } from "../base/nearest.ts";
import { type AnyOption, loadOptions, type Values } from "./load.ts";
import { ABSENT } from "./server/absent.ts";
import { ACTIVITY, AUTH, TLS } from "./server/auth.ts";
import { BUILD } from "./server/build.ts";
import { CONTAINERD } from "./server/containerd.ts";
import { DELEGATION } from "./server/delegation.ts";
import { EGRESS } from "./server/egress.ts";
import { FILE_CACHE } from "./server/file_cache.ts";
import { GC } from "./server/gc.ts";
import { ADVERTISED, COMPANIONS, CONTAINED, LISTENER, PROCESS } from "./server/general.ts";
import { INGRESS } from "./server/ingress.ts";
import { NETWORKS } from "./server/networks.ts";
import { REGISTRY, REMOTES } from "./server/registry.ts";
import { RUNTIME } from "./server/runtime.ts";
import { SESSIONS, WORKLOADS } from "./server/workloads.ts";
import { type OptionTable, Settings } from "./table.ts";

/** In the order of the reference page; the backends' tables come between this list and the next. */
const BEFORE_BACKENDS: readonly OptionTable[] = [
  LISTENER,
  PROCESS,
  DELEGATION,
  ADVERTISED,
  COMPANIONS,
  CONTAINED,
  TLS,
  AUTH,
  ACTIVITY,
  REGISTRY,
  REMOTES,
  GC,
  BUILD,
  RUNTIME,
  NETWORKS,
  CONTAINERD,
  WORKLOADS,
  SESSIONS,
  INGRESS,
  EGRESS,
  FILE_CACHE,
];
const AFTER_BACKENDS: readonly OptionTable[] = ABSENT;

/** All tables of a server with these backends. */
export function serverTables(backends: readonly OptionTable[]): readonly OptionTable[] {
  return [...BEFORE_BACKENDS, ...backends, ...AFTER_BACKENDS];
}

/** Variables of clients: a server that sees one does not warn of an unknown name. */
const CLIENT_VARIABLES = [
  "SVC_SERVER",
  "SVC_HOST",
  "SVC_TOKEN",
  "SVC_TOKEN_CACHE",
  "SVC_CONFIG",
  "SVC_CONTEXT",
  "SVC_OUTPUT",
  "SVC_CONDUIT",
  "SVC_VIA_SERVER",
  "SVC_BUILDER",
  "SVC_REGISTRY",
  "SVC_GH_BIN",
  "SVC_CONTEXT_FILE",
  "SVC_TRUST_CONTEXT_FILE",
  "SVC_AGENT_DIR",
  "SVC_DOCKER_SOCK",
];

type Environment = Readonly<Record<string, string | undefined>>;

export interface ServerSettings {
  settings: Settings;
  /**
   * Warnings: unknown variables with svc's prefix, empty variables that were meant to restrict the server, and
   * the `warning` of each option that is set.
   */
  warnings: string[];
}

/**
 * Reads the flags and variables of `svc serve`; `backends` are the tables of all backends in this build. Throws
 * `usage`, `config_invalid` or `not_in_build`.
 */
export function loadServerSettings(
  args: readonly string[],
  env: Environment,
  backends: readonly OptionTable[] = [],
): ServerSettings {
  const tables = serverTables(backends);
  const options = tables.flatMap((table) => table.options);
  const read = new Map<OptionTable, Values<readonly AnyOption[]>>();
  const { values, sources } = loadOptions(options, {
    args,
    env,
    command: "svc serve",
    check(values) {
      for (const table of tables) {
        const own = Object.fromEntries(table.options.map(({ key }) => [key, values[key]]));
        table.check?.(own);
        read.set(table, own);
      }
    },
  });
  const told = options.flatMap(({ key, warning }) =>
    warning !== undefined && values[key] ? [`${sources[key]} is set: ${warning}`] : []
  );
  return {
    settings: new Settings(read),
    warnings: [...unknownVariables(env, options), ...emptyVariables(env), ...told],
  };
}

function unknownVariables(env: Environment, options: readonly AnyOption[]): string[] {
  const known = new Set([...options.flatMap((option) => option.env ?? []), ...CLIENT_VARIABLES]);
  return Object.keys(env).filter((name) => name.startsWith("SVC_") && !known.has(name)).sort()
    .map((name) => {
      const near = nearest(name, known);
      return `${name} is not a variable of svc${near ? `; did you mean ${near}?` : ""}`;
    });
}

/** Empty variables that count as unset, although their owner may believe that they restrict the server. */
function emptyVariables(env: Environment): string[] {
  return [...TLS.options, ...AUTH.options].flatMap(({ env: [name] }) =>
    env[name] === "" ? [`${name} is empty and counts as not set`] : []
  );
}
