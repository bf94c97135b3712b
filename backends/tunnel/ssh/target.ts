/** The settings, read once: the SSH server, the user, and the address to listen on. */
import { userInfo } from "node:os";
import { SvcError } from "../../../lib/base/errors.ts";
import { joinHostPort, splitHostPort, splitLogin } from "../../../lib/base/host_port.ts";
import type { SshSettings } from "./options.ts";

export interface SshTarget {
  host: string;
  port: number;
  user: string;
  /** Where the SSH server listens for visitors, as `ssh -R` names it; "": everywhere it may. */
  bind: { host: string; port: number };
  urlTemplate?: string;
  urlFromSession: boolean;
  hostKey?: string;
  knownHosts?: string;
  insecure: boolean;
}

export function sshTarget(settings: SshSettings): SshTarget {
  const { tunnelSshAddr = "", tunnelSshBind: bindText } = settings;
  const address = splitLogin(tunnelSshAddr);
  const bind = splitHostPort(/^\d+$/.test(bindText) ? `:${bindText}` : bindText);
  if (address?.host === undefined || bind?.port === undefined) {
    throw new SvcError(
      "config_invalid",
      "Cannot open a tunnel with ssh: SVC_TUNNEL_SSH_ADDR or SVC_TUNNEL_SSH_BIND is not an address",
    );
  }
  return {
    host: address.host,
    port: address.port ?? 22,
    user: settings.tunnelSshUser ?? address.user ?? userInfo().username,
    // OpenSSH takes "*" and "" for all addresses, and answers with the one that was requested.
    bind: { host: bind.host === "*" ? "" : bind.host ?? "", port: bind.port },
    urlTemplate: settings.tunnelSshUrlTemplate,
    urlFromSession: settings.tunnelSshUrlFromSession,
    hostKey: settings.tunnelSshHostkey,
    knownHosts: settings.tunnelSshKnownHosts,
    insecure: settings.tunnelSshInsecure,
  };
}

/** "user@host:port", for people. */
export function shown({ user, host, port }: SshTarget): string {
  return `${user}@${joinHostPort(host, port)}`;
}
