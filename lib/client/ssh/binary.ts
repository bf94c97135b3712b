/**
 * A tunnel that `ssh -N -L` holds: for hosts behind a ProxyCommand or a jump host, and where the profile asks
 * for it.
 */
import type { Socket } from "node:net";
import { join } from "node:path";
import { sshFailure, SshForward } from "../../wire/ssh/forward.ts";
import { parsePublicKey } from "../../wire/ssh/packing.ts";
import type { SshTunnel } from "../profile/types.ts";
import { DEFAULT_REMOTE_ADDR } from "../resolve.ts";
import type { Dialer } from "../transport/dialer.ts";
import { type Environment, NULL_FILE, quoted, splitAddress, sshArguments } from "./config.ts";

export interface BinaryOptions {
  settings: SshTunnel;
  env: Environment;
  signal: AbortSignal;
}

export class SshBinary implements Dialer {
  readonly resumes = true;
  readonly #forward: SshForward;

  constructor({ settings, env, signal }: BinaryOptions) {
    const { host, port = 5000 } = splitAddress(settings["remote-addr"] ?? DEFAULT_REMOTE_ADDR);
    this.#forward = new SshForward({
      // ssh uses the first value of an option: the profile's host key settings go before those of its file.
      args: async (folder) => [
        ...await hostKeyArguments(settings, folder),
        ...sshArguments(settings),
        splitAddress(settings.addr!).host,
      ],
      remote: `${host.includes(":") ? `[${host}]` : host}:${port}`,
      env: Object.fromEntries(
        Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined),
      ),
      failure: (words) => sshFailure(settings.addr!, words),
      signal,
    });
  }

  dial(): Promise<Socket> {
    return this.#forward.dial();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#forward[Symbol.asyncDispose]();
  }
}

/** Arguments that make ssh check the host key as the profile says. */
async function hostKeyArguments(settings: SshTunnel, folder: string): Promise<string[]> {
  const { "host-key": pinned, "insecure-host-key": insecure } = settings;
  if (pinned !== undefined) {
    const file = join(folder, "known_hosts");
    const { type, blob } = parsePublicKey(pinned)!;
    await Deno.writeTextFile(file, `svc-pinned ${type} ${blob.toString("base64")}\n`, {
      mode: 0o600,
    });
    return [
      ...["-o", "HostKeyAlias=svc-pinned", "-o", `UserKnownHostsFile=${quoted(file)}`],
      ...["-o", `GlobalKnownHostsFile=${NULL_FILE}`, "-o", "StrictHostKeyChecking=yes"],
      ...["-o", `HostKeyAlgorithms=${type === "ssh-rsa" ? "rsa-sha2-512,rsa-sha2-256" : type}`],
    ];
  }
  if (!insecure) return [];
  return ["-o", "StrictHostKeyChecking=no", "-o", `UserKnownHostsFile=${NULL_FILE}`];
}
