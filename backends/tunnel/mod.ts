/** The tunnel backends, and what a value of SVC_TUNNEL_BACKEND selects. Nothing else lists their names. */
import { SvcError } from "../../lib/base/errors.ts";
import { suggestion } from "../../lib/base/nearest.ts";
import type { Logger } from "../../lib/base/log.ts";
import type { TunnelModule, TunnelSettings } from "../../lib/tunnel/module.ts";
import { Tunnels } from "../../lib/tunnel/tunnels.ts";

export interface TunnelBackendEntry {
  help: string;
  /** Variables that it cannot do without, and the options' keys of them. */
  needs: readonly [variable: string, key: keyof TunnelSettings][];
  /** Absent where this build does not have it. */
  load?: () => Promise<TunnelModule>;
}

export const TUNNEL_BACKENDS: Record<string, TunnelBackendEntry> = {
  ngrok: { help: "the ngrok service", needs: [] },
  ssh: {
    help: "a reverse tunnel of an SSH server",
    needs: [["SVC_TUNNEL_SSH_ADDR", "tunnelSshAddr"]],
    load: () => import("./ssh/open.ts"),
  },
  cloudflare: { help: "Cloudflare, through cloudflared", needs: [] },
  tailscale: { help: "Tailscale's funnel, through tailscale", needs: [] },
};

/** Names of the backends that can open a tunnel with these settings. */
export function usableTunnelBackends(settings: TunnelSettings): string[] {
  return Object.entries(TUNNEL_BACKENDS)
    .filter(([, { load, needs }]) => load && needs.every(([, key]) => settings[key] !== undefined))
    .map(([name]) => name);
}

/**
 * The module of that name. Throws `argument_invalid` for a name that is none, `not_in_build`, and
 * `unsupported` where the server's settings lack what it needs.
 */
export async function loadTunnelBackend(
  name: string,
  settings: TunnelSettings,
): Promise<TunnelModule> {
  const names = Object.keys(TUNNEL_BACKENDS);
  if (!Object.hasOwn(TUNNEL_BACKENDS, name)) {
    throw new SvcError(
      "argument_invalid",
      `Cannot open a tunnel: unknown backend ${JSON.stringify(name)}${suggestion(name, names)}`,
      { help: `use one of ${names.join(", ")}` },
    );
  }
  const { load, needs } = TUNNEL_BACKENDS[name];
  if (!load) {
    throw new SvcError(
      "not_in_build",
      `Cannot open a tunnel with ${name}: it is not in this build yet`,
      { help: "choose ssh: --backend ssh, or the server's SVC_TUNNEL_BACKEND=ssh" },
    );
  }
  for (const [variable, key] of needs) {
    if (settings[key] !== undefined) continue;
    throw new SvcError(
      "unsupported",
      `Cannot open a tunnel with ${name}: the server has no ${variable}`,
      { help: `start the server with ${variable}` },
    );
  }
  return await load();
}

export interface TunnelConfig extends TunnelSettings {
  tunnelBackend: string;
  tunnelAuthtoken?: string;
}

/**
 * The server's tunnels; none is open. Throws `not_in_build` for a backend that was chosen and is not here:
 * the default, which is chosen by nobody, is told of when a tunnel is asked for.
 */
export function createTunnels(config: TunnelConfig, defaultBackend: string, log: Logger): Tunnels {
  const { tunnelBackend, tunnelAuthtoken } = config;
  if (tunnelBackend !== defaultBackend && !TUNNEL_BACKENDS[tunnelBackend].load) {
    throw new SvcError(
      "not_in_build",
      `Cannot use SVC_TUNNEL_BACKEND: ${tunnelBackend} is not in this build yet`,
      { help: "set SVC_TUNNEL_BACKEND=ssh, or leave it out" },
    );
  }
  if (config.tunnelSshInsecure) {
    log.warn("SVC_TUNNEL_SSH_INSECURE is set: tunnels trust whoever answers as the SSH server");
  }
  return new Tunnels({
    backend: async (name) => (await loadTunnelBackend(name, config)).create(config, log),
    defaultBackend: tunnelBackend,
    credential: tunnelAuthtoken,
    usable: usableTunnelBackends(config),
    log,
  });
}
