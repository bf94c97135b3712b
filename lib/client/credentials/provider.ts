/** The credential of one command, as the target defines it; minted and exchanged when it is first needed. */
import { SvcError } from "../../base/errors.ts";
import { createClient } from "../client.ts";
import type { KeyAuth } from "../profile/types.ts";
import type { Prompt } from "../prompt.ts";
import type { Target } from "../resolve.ts";
import type { Way } from "../transport/open.ts";
import {
  type CachedToken,
  cacheKey,
  type CacheMode,
  isFresh,
  openTokenCache,
  type TokenCache,
} from "./cache.ts";

export interface ProviderOptions {
  target: Target;
  way: Pick<Way, "base" | "http" | "explain" | "resumes">;
  env: Readonly<Record<string, string | undefined>>;
  cacheMode: CacheMode;
  prompt: Prompt;
  signal: AbortSignal;
}

export interface CredentialProvider {
  /** The bearer token of the next call; undefined: none is sent. */
  token(): Promise<string | undefined>;
  /** The server refused the last token: forgets it. True where a new one can be had. */
  renew(): Promise<boolean>;
  /** Removes the last token from the cache; for logout. */
  forget(): Promise<void>;
}

interface Minted extends CachedToken {
  /** The token cannot be minted again, or never expires: it is not cached. */
  fixed?: boolean;
}

class Provider implements CredentialProvider {
  readonly #options: ProviderOptions;
  #current?: Promise<Minted | undefined>;
  #cache?: Promise<TokenCache>;

  constructor(options: ProviderOptions) {
    this.#options = options;
  }

  async token(): Promise<string | undefined> {
    let entry = await (this.#current ??= this.#obtain());
    if (entry && !isFresh(entry)) entry = await (this.#current = this.#obtain());
    return entry?.token;
  }

  async renew(): Promise<boolean> {
    const entry = await this.#current;
    this.#current = undefined;
    if (!entry || entry.fixed) return false;
    await this.forget();
    return true;
  }

  async forget(): Promise<void> {
    await (await this.#opened()).delete(await this.#key());
  }

  #opened(): Promise<TokenCache> {
    const { cacheMode: mode, env } = this.#options;
    return this.#cache ??= openTokenCache({ mode, env });
  }

  /** The cache key. Another server, SSH key or scope is another token. */
  async #key(): Promise<string> {
    const { target: { server, transport, credential, exchange } } = this.#options;
    // Two servers behind two tunnels can have the same address.
    const place = transport.kind === "direct" ? [server] : [server, transport];
    if (credential.kind === "key") {
      const { scope, ttl } = credential.settings;
      return cacheKey(place, "key", await keyName(credential.settings), scope ?? "", ttl ?? "");
    }
    return cacheKey(place, credential, exchange ?? null);
  }

  async #obtain(): Promise<Minted | undefined> {
    const { target: { credential, exchange } } = this.#options;
    if (credential.kind === "none") return undefined;
    if (credential.kind === "token" && !exchange) return this.#plain(credential.token);
    if (credential.kind === "kube" && !exchange) return await this.#kube(credential.settings);
    const cache = await this.#opened();
    const key = await this.#key();
    const kept = await cache.get(key);
    if (kept) return kept;
    const minted = credential.kind === "key"
      ? await this.#session(credential.settings)
      : await this.#exchanged();
    if (!minted.fixed) await cache.put(key, minted);
    return minted;
  }

  #plain(token: string): Minted {
    return { token, expiresAt: Infinity, server: this.#options.target.server, fixed: true };
  }

  async #kube(
    settings: Extract<Target["credential"], { kind: "kube" }>["settings"],
  ): Promise<Minted> {
    const { mintKubeToken } = await import("../kube/token.ts");
    const { env, signal, target: { server } } = this.#options;
    const { token, expiresAt } = await mintKubeToken(settings, env, signal);
    return { token, expiresAt: expiresAt.getTime(), server };
  }

  async #session(settings: KeyAuth): Promise<Minted> {
    const [{ openSigner }, { mintSession }] = await Promise.all([
      import("./signer.ts"),
      import("./session.ts"),
    ]);
    const { target: { server }, way, env, prompt, signal } = this.#options;
    const signer = await openSigner({ settings, env, prompt, signal });
    const client = createClient({ server, way, signal });
    const { scope, ttl } = settings;
    const session = await mintSession({ client, signer, scope, ttl });
    return { token: session.token, expiresAt: Date.now() + session.expiresIn * 1000, server };
  }

  async #exchanged(): Promise<Minted> {
    const { target: { server, credential, exchange }, way, signal } = this.#options;
    const subject = credential.kind === "kube"
      ? await this.#kube(credential.settings)
      : credential.kind === "token"
      ? this.#plain(credential.token)
      : undefined;
    if (!subject) throw new SvcError("internal", "Cannot exchange a token: there is none");
    const { exchangeToken } = await import("./token_exchange.ts");
    const issued = await exchangeToken({
      server,
      base: way.base,
      http: way.http,
      subject: subject.token,
      scope: exchange?.scope,
      signal,
    });
    if (!issued) return { ...subject, fixed: true };
    return { token: issued.access_token, expiresAt: Date.now() + issued.expires_in * 1000, server };
  }
}

/** Names the key by its fingerprint if that is known without unlocking it, else by its file. */
async function keyName(settings: KeyAuth): Promise<string> {
  const { quietFingerprint } = await import("./signer.ts");
  const known = await quietFingerprint(settings);
  if (known) return known;
  const file = settings["identity-file"]!;
  const modified = await Deno.stat(file).then((info) => info.mtime?.getTime(), () => 0);
  return `${file} ${modified}`;
}

export function createProvider(options: ProviderOptions): CredentialProvider {
  return new Provider(options);
}
