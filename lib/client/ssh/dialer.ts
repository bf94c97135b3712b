/** The `ssh-tunnel` transport (SPEC.md, table SSHTunnel): by ssh2, or by ssh where only ssh can connect. */
import type { Prompt } from "../prompt.ts";
import type { SshTunnel } from "../profile/types.ts";
import type { Dialer } from "../transport/dialer.ts";
import { type Environment, sshHost } from "./config.ts";

export interface SshDialerOptions {
  settings: SshTunnel;
  env: Environment;
  prompt: Prompt;
  signal: AbortSignal;
}

export async function sshDialer(options: SshDialerOptions): Promise<Dialer> {
  const { settings, env, signal } = options;
  const forced = settings["use-ssh-binary"];
  const host = forced ? undefined : await sshHost(settings, env, signal);
  if (!host || (host.proxied && forced !== false)) {
    const { SshBinary } = await import("./binary.ts");
    return new SshBinary({ settings, env, signal });
  }
  const { SshConnection } = await import("./connection.ts");
  return new SshConnection({ ...options, host });
}
