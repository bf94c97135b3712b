/** The option table of `svc serve`, and the record it loads into. */
import { SvcError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { type AnyOption, loadOptions, type Values } from "./load.ts";
import { ABSENT } from "./server/absent.ts";
import { ACTIVITY, AUTH, checkTls, TLS } from "./server/auth.ts";
import { BUILD } from "./server/build.ts";
import { CONTAINERD } from "./server/containerd.ts";
import { DEPLOY } from "./server/deploy.ts";
import { GC } from "./server/gc.ts";
import { DEFAULT_BACKEND, GENERAL } from "./server/general.ts";
import { INGRESS } from "./server/ingress.ts";
import { REGISTRY } from "./server/registry.ts";
import { checkTunnel, TUNNEL } from "./server/tunnel.ts";

const IN_BUILD = [
  ...GENERAL,
  ...TLS,
  ...AUTH,
  ...ACTIVITY,
  ...REGISTRY,
  ...GC,
  ...BUILD,
  ...DEPLOY,
  ...CONTAINERD,
  ...INGRESS,
  ...TUNNEL,
] as const;

/** Every option, in the order of the reference page; those whose subsystem is absent come last. */
export const SERVER_OPTIONS: readonly AnyOption[] = [...IN_BUILD, ...ABSENT];

export { DEFAULT_BACKEND };

export type ServerConfig = Values<typeof IN_BUILD>;

/** Variables that clients read; a server that sees one need not know it. */
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

export interface LoadedServerConfig {
  config: ServerConfig;
  /** Where a value came from: "--addr", "SVC_ADDR"; no entry where the default holds. */
  sources: Partial<Record<string, string>>;
  /** Variables named like ours that nothing knows, and empty ones that were meant to close the server. */
  warnings: string[];
}

/**
 * Reads `svc serve`'s flags and variables. Throws `usage`, `config_invalid` or `not_in_build`.
 */
export function loadServerConfig(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): LoadedServerConfig {
  if (env.SVC_REGISTRY_SOURCE === "host-native" && env.SVC_REGISTRY_MIRROR) {
    throw new SvcError(
      "config_invalid",
      "Cannot use SVC_REGISTRY_MIRROR: it and SVC_REGISTRY_SOURCE=host-native exclude each other",
      { help: "unset one of the two" },
    );
  }
  if (env.SVC_GC_LEASE && !env.SVC_GC_INTERVAL) {
    throw new SvcError(
      "config_invalid",
      "Cannot use SVC_GC_LEASE: it gates collections on a schedule, and SVC_GC_INTERVAL is not set",
      { help: "set SVC_GC_INTERVAL too, such as 1h" },
    );
  }
  const { values, sources } = loadOptions(SERVER_OPTIONS, { args, env, command: "svc serve" });
  checkTls(values as ServerConfig);
  checkTunnel(values as ServerConfig);
  return {
    // IN_BUILD is the start of SERVER_OPTIONS, so its record is part of what was loaded.
    config: values as ServerConfig,
    sources,
    warnings: [...unknownVariables(env), ...emptyVariables(env)],
  };
}

function unknownVariables(env: Readonly<Record<string, string | undefined>>): string[] {
  const known = new Set([
    ...SERVER_OPTIONS.flatMap((option) => option.env ?? []),
    ...CLIENT_VARIABLES,
  ]);
  return Object.keys(env).filter((name) => name.startsWith("SVC_") && !known.has(name)).sort()
    .map((name) => {
      const near = nearest(name, known);
      return `${name} is not a variable of svc${near ? `; did you mean ${near}?` : ""}`;
    });
}

/** An empty variable counts as unset: here that leaves open what somebody may believe closed. */
function emptyVariables(env: Readonly<Record<string, string | undefined>>): string[] {
  return [...TLS, ...AUTH].flatMap(({ env: [name] }) =>
    env[name] === "" ? [`${name} is empty and counts as not set`] : []
  );
}
