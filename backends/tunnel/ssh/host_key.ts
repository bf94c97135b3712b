/** Verifies the SSH server's key: against a pinned key, or a known_hosts file. */
import { SvcError } from "../../../lib/base/errors.ts";
import {
  hostName,
  judge,
  type KnownHost,
  knownTypes,
  parseKnownHosts,
} from "../../../lib/wire/ssh/known_hosts.ts";
import { fingerprint, keyType, parsePublicKey } from "../../../lib/wire/ssh/packing.ts";
import type { SshTarget } from "./target.ts";

type Parts = Pick<SshTarget, "host" | "port" | "hostKey" | "knownHosts" | "insecure">;

export class HostKey {
  /** Why the last key was refused. */
  refusal?: SvcError;
  readonly #target: Parts;
  readonly #entries: KnownHost[];
  readonly #name: string;

  private constructor(target: Parts, entries: KnownHost[]) {
    this.#target = target;
    this.#entries = entries;
    this.#name = hostName(target.host, target.port);
  }

  /** Reads the file, where it is used: it may have changed since the last connection. */
  static async of(target: Parts): Promise<HostKey> {
    const { hostKey, knownHosts } = target;
    if (hostKey !== undefined || knownHosts === undefined) return new HostKey(target, []);
    try {
      return new HostKey(target, parseKnownHosts(await Deno.readTextFile(knownHosts)));
    } catch (cause) {
      throw new SvcError(
        "prerequisite_missing",
        `Cannot open a tunnel with ssh: SVC_TUNNEL_SSH_KNOWN_HOSTS: ${(cause as Error).message}`,
        { cause, help: "make the file, or correct the server's variable" },
      );
    }
  }

  /** Key types to ask for first, so that the server shows the known key. */
  types(): string[] {
    const pinned = parsePublicKey(this.#target.hostKey ?? "");
    return pinned ? [pinned.type] : knownTypes(this.#entries, this.#name);
  }

  verify(key: Uint8Array): boolean {
    try {
      this.#check(key);
      return true;
    } catch (error) {
      this.refusal = error as SvcError;
      return false;
    }
  }

  #refuse(why: string, help: string, key: Uint8Array): SvcError {
    const shown = `${keyType(key)} ${fingerprint(key)}`;
    // Not 403: the caller may well be allowed to ask for the tunnel.
    return new SvcError("upstream_failed", `Cannot trust ${this.#name}: ${why} (${shown})`, {
      help,
      detail: { refused: "host key" },
    });
  }

  #check(key: Uint8Array): void {
    const { hostKey, knownHosts, insecure } = this.#target;
    const anew = "somebody may be in between; if the SSH server was installed again, correct ";
    if (hostKey !== undefined) {
      if (parsePublicKey(hostKey)?.blob.equals(key)) return;
      const why = "its host key is not the one in SVC_TUNNEL_SSH_HOSTKEY";
      throw this.#refuse(why, `${anew}SVC_TUNNEL_SSH_HOSTKEY`, key);
    }
    if (knownHosts !== undefined) {
      const verdict = judge(this.#entries, this.#name, key);
      if (verdict.kind === "known") return;
      if (verdict.kind !== "new") {
        const why = verdict.kind === "revoked"
          ? `its host key is revoked in ${knownHosts}, line ${verdict.line}`
          : `its host key has changed from the one in ${knownHosts}, line ${verdict.line}`;
        throw this.#refuse(why, `${anew}${knownHosts}`, key);
      }
    }
    if (insecure) return;
    const why = knownHosts === undefined
      ? "nothing says what its host key is"
      : `its host key is not in ${knownHosts}`;
    throw this.#refuse(
      why,
      "compare the fingerprint with that of the host, then set SVC_TUNNEL_SSH_HOSTKEY or " +
        "SVC_TUNNEL_SSH_KNOWN_HOSTS",
      key,
    );
  }
}
