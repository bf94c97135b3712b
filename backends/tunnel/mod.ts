/** The tunnel backends, and which of them a value of SVC_TUNNEL_BACKEND selects. Only this file lists their names. */
import { SvcError } from "../../lib/base/errors.ts";
import { suggestion } from "../../lib/base/nearest.ts";
import type { Logger } from "../../lib/base/log.ts";
import { invalid, oneOf } from "../../lib/config/checks.ts";
import { type OptionTable, optionTable, reading, type Settings } from "../../lib/config/table.ts";
import type { TunnelModule } from "../../lib/tunnel/module.ts";
import { Tunnels } from "../../lib/tunnel/tunnels.ts";
import { CLOUDFLARE } from "./cloudflare/options.ts";
import { SSH } from "./ssh/options.ts";
import { TAILSCALE } from "./tailscale/options.ts";

export interface TunnelBackendEntry {
  help: string;
  /** The backend's own options. */
  options: readonly OptionTable[];
  /** The name of a variable that the backend needs and that is not set. */
  lacks?: (settings: Settings) => string | undefined;
  /** Absent where this build does not contain the backend. */
  load?: (settings: Settings) => Promise<TunnelModule>;
}

const TUNNEL_BACKENDS: Record<string, TunnelBackendEntry> = {
  ngrok: { help: "the ngrok service", options: [] },
  ssh: {
    help: "a reverse tunnel of an SSH server",
    options: [SSH],
    lacks: (settings) =>
      settings.of(SSH).tunnelSshAddr === undefined ? "SVC_TUNNEL_SSH_ADDR" : undefined,
    load: reading([SSH], async () => {
      const { create } = await import("./ssh/open.ts");
      return (settings): TunnelModule => ({ create: (log) => create(settings, log) });
    }),
  },
  cloudflare: { help: "Cloudflare, through cloudflared", options: [CLOUDFLARE] },
  tailscale: { help: "Tailscale's funnel, through tailscale", options: [TAILSCALE] },
};

/** The value of SVC_TUNNEL_BACKEND where it is not set. */
const DEFAULT = "ngrok";

const section = "Tunnels";

const CHOICE = optionTable([
  {
    key: "tunnelBackend",
    kind: "string",
    env: ["SVC_TUNNEL_BACKEND"],
    default: DEFAULT,
    section,
    help:
      "Backend of public tunnels: ssh (a reverse tunnel); ngrok, cloudflare and tailscale are not in " +
      "this build yet.",
    check: oneOf(Object.keys(TUNNEL_BACKENDS)),
  },
  {
    key: "tunnelAuthtoken",
    kind: "string",
    env: ["SVC_TUNNEL_AUTHTOKEN"],
    section,
    help: "Credential of the selected backend where a client sends none; for ssh the text of a " +
      "private key without a passphrase.",
  },
]);

export const TUNNEL_TABLES: readonly OptionTable[] = [
  CHOICE,
  ...Object.values(TUNNEL_BACKENDS).flatMap(({ options }) => options),
];

/** Names of the backends that can open a tunnel with these settings. */
export function usableTunnelBackends(settings: Settings): string[] {
  return Object.entries(TUNNEL_BACKENDS)
    .filter(([, { load, lacks }]) => load && lacks?.(settings) === undefined)
    .map(([name]) => name);
}

/**
 * Loads the backend of that name. Throws `argument_invalid` for an unknown name, `not_in_build`, and
 * `unsupported` where a setting that it needs is missing.
 */
export async function loadTunnelBackend(name: string, settings: Settings): Promise<TunnelModule> {
  const names = Object.keys(TUNNEL_BACKENDS);
  if (!Object.hasOwn(TUNNEL_BACKENDS, name)) {
    throw new SvcError(
      "argument_invalid",
      `Cannot open a tunnel: unknown backend ${JSON.stringify(name)}${suggestion(name, names)}`,
      { help: `use one of ${names.join(", ")}` },
    );
  }
  const { load, lacks } = TUNNEL_BACKENDS[name];
  if (!load) {
    throw new SvcError(
      "not_in_build",
      `Cannot open a tunnel with ${name}: it is not in this build yet`,
      { help: "choose ssh: --backend ssh, or the server's SVC_TUNNEL_BACKEND=ssh" },
    );
  }
  const variable = lacks?.(settings);
  if (variable !== undefined) {
    throw new SvcError(
      "unsupported",
      `Cannot open a tunnel with ${name}: the server has no ${variable}`,
      { help: `start the server with ${variable}` },
    );
  }
  return await load(settings);
}

/**
 * The server's tunnels; none is open at first. Throws `not_in_build` for a chosen backend that this build does
 * not contain, and `config_invalid` for one that lacks a setting. A missing default backend is only reported
 * when a tunnel is asked for.
 */
export function createTunnels(settings: Settings, log: Logger): Tunnels {
  const { tunnelBackend: name, tunnelAuthtoken: credential } = settings.of(CHOICE);
  const { load, lacks } = TUNNEL_BACKENDS[name];
  if (name !== DEFAULT && !load) {
    throw new SvcError(
      "not_in_build",
      `Cannot use SVC_TUNNEL_BACKEND: ${name} is not in this build yet`,
      { help: "set SVC_TUNNEL_BACKEND=ssh, or leave it out" },
    );
  }
  const variable = lacks?.(settings);
  if (variable !== undefined) {
    throw invalid("SVC_TUNNEL_BACKEND", `${name} needs ${variable}, which is not set`);
  }
  return new Tunnels({
    backend: async (name) => (await loadTunnelBackend(name, settings)).create(log),
    defaultBackend: name,
    credential,
    usable: usableTunnelBackends(settings),
    log,
  });
}
