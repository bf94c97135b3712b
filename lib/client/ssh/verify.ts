/** Whether a host key is trusted: pinned, in known_hosts, or accepted by a person. */
import { Buffer } from "node:buffer";
import { dirname } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { ensureDir } from "../../base/fs.ts";
import type { Prompt } from "../prompt.ts";
import type { SshTunnel } from "../profile/types.ts";
import type { SshHost } from "./config.ts";
import {
  hostName,
  judge,
  type KnownHost,
  knownTypes,
  parseKnownHosts,
} from "../../wire/ssh/known_hosts.ts";
import { fingerprint, keyType, parsePublicKey } from "../../wire/ssh/packing.ts";

interface KnownFile {
  path: string;
  entries: KnownHost[];
}

export class HostVerifier {
  /** Why the last key was refused. */
  refusal?: SvcError;
  /** A key of an unknown host, and whether it was accepted since. */
  #new?: { key: Buffer; accepted: boolean };
  readonly #settings: SshTunnel;
  readonly #host: SshHost;
  readonly #prompt: Prompt;
  readonly #files: KnownFile[];
  readonly #name: string;

  private constructor(settings: SshTunnel, host: SshHost, prompt: Prompt, files: KnownFile[]) {
    this.#settings = settings;
    this.#host = host;
    this.#prompt = prompt;
    this.#files = files;
    this.#name = host.hostKeyAlias?.toLowerCase() ?? hostName(host.hostname, host.port);
  }

  static async create(settings: SshTunnel, host: SshHost, prompt: Prompt): Promise<HostVerifier> {
    const files = await Promise.all(host.knownHosts.map(async (path) => ({
      path,
      entries: parseKnownHosts(await Deno.readTextFile(path).catch(() => "")),
    })));
    return new HostVerifier(settings, host, prompt, files);
  }

  /** Key types to prefer in the handshake. */
  types(): string[] {
    const pinned = parsePublicKey(this.#settings["host-key"] ?? "");
    if (pinned) return [pinned.type];
    return [...new Set(this.#files.flatMap(({ entries }) => knownTypes(entries, this.#name)))];
  }

  verify(key: Uint8Array): boolean {
    try {
      this.#check(Buffer.from(key));
      this.refusal = undefined;
      return true;
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      this.refusal = error;
      return false;
    }
  }

  #refuse(why: string, help: string, key: Uint8Array, verdict: string): SvcError {
    return new SvcError(
      "denied",
      `Cannot trust ${this.#name}: ${why} (${keyType(key)} ${fingerprint(key)})`,
      {
        help,
        detail: { hostKey: verdict },
      },
    );
  }

  #check(key: Buffer): void {
    const pinned = this.#settings["host-key"];
    if (pinned !== undefined) {
      if (parsePublicKey(pinned)?.blob.equals(key)) return;
      throw this.#refuse(
        "its host key is not the one in ssh-tunnel.host-key",
        "somebody may be in between; if the host was installed again, correct host-key",
        key,
        "changed",
      );
    }
    if (this.#settings["insecure-host-key"]) return;
    const verdicts = this.#files.map(({ path, entries }) => ({
      path,
      verdict: judge(entries, this.#name, key),
    }));
    for (const { path, verdict } of verdicts) {
      if (verdict.kind !== "revoked") continue;
      throw this.#refuse(
        `its host key is revoked in ${path}, line ${verdict.line}`,
        "do not use this host before whoever runs it has given it a new key",
        key,
        "revoked",
      );
    }
    if (verdicts.some(({ verdict }) => verdict.kind === "known")) return;
    for (const { path, verdict } of verdicts) {
      if (verdict.kind !== "changed") continue;
      throw this.#refuse(
        `its host key has changed from the one in ${path}, line ${verdict.line}`,
        `somebody may be in between; if the host was installed again: ssh-keygen -f ${path} -R '${this.#name}'`,
        key,
        "changed",
      );
    }
    if (this.#new?.accepted && this.#new.key.equals(key)) return;
    this.#new = { key, accepted: false };
    throw this.#refuse(
      "it is not in known_hosts",
      "compare the fingerprint, then connect once with ssh, or pin it with ssh-tunnel.host-key",
      key,
      "new",
    );
  }

  /**
   * Whether to trust a new host: as ssh_config says, or as the person answers. True: its key is now in
   * known_hosts, and another attempt can succeed.
   */
  async learn(): Promise<boolean> {
    if (!this.#new || this.#new.accepted) return false;
    const { key } = this.#new;
    const { strict, knownHosts: [path] } = this.#host;
    const accepted = strict === "accept-new" || strict === "no" ||
      (strict === "ask" && await this.#prompt.confirm(
        `The host ${this.#name} is new; its key is ${keyType(key)} ${fingerprint(key)}. Trust it?`,
      ));
    if (!accepted) return false;
    this.#new.accepted = true;
    if (path !== undefined) {
      await ensureDir(dirname(path), 0o700);
      const line = `${this.#name} ${keyType(key)} ${key.toString("base64")}\n`;
      await Deno.writeTextFile(path, line, { append: true, mode: 0o600 });
    }
    return true;
  }
}
