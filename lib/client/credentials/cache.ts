/**
 * Where short-lived credentials are kept between commands (SPEC.md, `SVC_TOKEN_CACHE`): in the system's
 * keyring, in a private file that ends with the login session, or nowhere. A credential that cannot be kept is
 * minted again; only a mode that was asked for by name fails.
 */
import { createHash } from "../../base/hash.ts";
import { join } from "../../base/path.ts";
import { SvcError } from "../../base/errors.ts";
import { ensureDir, writeFileAtomic } from "../../base/fs.ts";
import { findKeyring, type Keyring } from "./keyring.ts";

export type CacheMode = "auto" | "keyring" | "file" | "none";

export interface CachedToken {
  token: string;
  /** Milliseconds since 1970, by this machine's clock. */
  expiresAt: number;
  /** Name of the server, for a person. */
  server: string;
}

export interface TokenCache {
  get(key: string): Promise<CachedToken | undefined>;
  put(key: string, entry: CachedToken): Promise<void>;
  delete(key: string): Promise<void>;
  /** Removes every credential of svc; resolves to their number. */
  clear(): Promise<number>;
}

export interface CacheOptions {
  mode: CacheMode;
  env: Readonly<Record<string, string | undefined>>;
  os?: typeof Deno.build.os;
}

/** A token with less than this left is not used: it could expire on the way. */
const MARGIN_MS = 15_000;

/** The key of a cached token: a hash of all that the token depends on. No part can be read back. */
export function cacheKey(...parts: unknown[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

export const isFresh = (entry: CachedToken): boolean => entry.expiresAt - MARGIN_MS > Date.now();

function parseEntry(text: string | undefined): CachedToken | undefined {
  if (text === undefined) return undefined;
  try {
    const entry = JSON.parse(text) as Partial<CachedToken> | null;
    const good = typeof entry?.token === "string" && typeof entry.expiresAt === "number";
    return good && isFresh(entry as CachedToken) ? entry as CachedToken : undefined;
  } catch {
    return undefined; // not ours
  }
}

const NOWHERE: TokenCache = {
  get: () => Promise.resolve(undefined),
  put: () => Promise.resolve(),
  delete: () => Promise.resolve(),
  clear: () => Promise.resolve(0),
};

/** The folder of the login session; undefined where the system has none. */
async function sessionFolder(
  { env, os = Deno.build.os }: CacheOptions,
): Promise<string | undefined> {
  if (env.XDG_RUNTIME_DIR) return env.XDG_RUNTIME_DIR;
  if (os !== "linux") return undefined;
  const path = `/run/user/${Deno.uid()}`;
  const own = await Deno.stat(path).then((info) => info.uid === Deno.uid(), () => false);
  return own ? path : undefined;
}

const isPrivate = (info: Deno.FileInfo) =>
  Deno.build.os === "windows" || (info.uid === Deno.uid() && (info.mode! & 0o077) === 0);

class FileCache implements TokenCache {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  #path(key: string): string {
    return join(this.#folder, `${key}.json`);
  }

  /** A file that others could have written is not trusted. */
  async get(key: string): Promise<CachedToken | undefined> {
    try {
      const folder = await Deno.lstat(this.#folder);
      const file = await Deno.lstat(this.#path(key));
      if (!folder.isDirectory || !isPrivate(folder) || !file.isFile || !isPrivate(file)) {
        return undefined;
      }
      return parseEntry(await Deno.readTextFile(this.#path(key)));
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    }
  }

  async put(key: string, entry: CachedToken): Promise<void> {
    await ensureDir(this.#folder, 0o700);
    const info = await Deno.lstat(this.#folder);
    if (!info.isDirectory || (Deno.build.os !== "windows" && info.uid !== Deno.uid())) {
      throw new SvcError(
        "denied",
        `Cannot keep a token in ${this.#folder}: it is not this user's folder`,
        {
          help: "remove it, or set SVC_TOKEN_CACHE=none",
        },
      );
    }
    if (!isPrivate(info)) await Deno.chmod(this.#folder, 0o700);
    await writeFileAtomic(this.#path(key), JSON.stringify(entry), { mode: 0o600 });
  }

  async delete(key: string): Promise<void> {
    await Deno.remove(this.#path(key)).catch(() => {/* not there */});
  }

  async clear(): Promise<number> {
    let count = 0;
    try {
      for await (const { name } of Deno.readDir(this.#folder)) {
        await Deno.remove(join(this.#folder, name));
        if (name.endsWith(".json")) count++;
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
    return count;
  }
}

function keyringCache(keyring: Keyring): TokenCache {
  return {
    get: async (key) => parseEntry(await keyring.get(key)),
    put: (key, entry) => keyring.set(key, JSON.stringify(entry)),
    delete: (key) => keyring.delete(key),
    clear: () => keyring.clear(),
  };
}

/** Uses the keyring first; what the keyring does not take goes to the file. */
function both(keyring: TokenCache, file: TokenCache): TokenCache {
  return {
    get: async (key) => await keyring.get(key).catch(() => undefined) ?? await file.get(key),
    put: (key, entry) => keyring.put(key, entry).catch(() => file.put(key, entry)),
    async delete(key) {
      await keyring.delete(key).catch(() => {/* locked */});
      await file.delete(key);
    },
    clear: async () => await keyring.clear().catch(() => 0) + await file.clear(),
  };
}

/** Throws `prerequisite_missing` for a mode that was asked for by name and that this machine does not have. */
export async function openTokenCache(options: CacheOptions): Promise<TokenCache> {
  const { mode, env, os } = options;
  if (mode === "none") return NOWHERE;
  const folder = await sessionFolder(options);
  const file = folder === undefined ? undefined : new FileCache(join(folder, "svc", "tokens"));
  if (mode === "file") {
    if (file) return file;
    throw new SvcError(
      "prerequisite_missing",
      "Cannot keep tokens in a file: the login session has no runtime folder",
      {
        help: "set XDG_RUNTIME_DIR, or SVC_TOKEN_CACHE to another mode",
      },
    );
  }
  const keyring = await findKeyring(env, os);
  if (mode === "keyring") {
    if (keyring) return keyringCache(keyring);
    throw new SvcError(
      "prerequisite_missing",
      "Cannot keep tokens in the keyring: svc finds none that it can use in this session",
      {
        help:
          "install secret-tool (libsecret-tools) and start a keyring, or set SVC_TOKEN_CACHE=file",
      },
    );
  }
  if (!keyring) return file ?? NOWHERE;
  return file ? both(keyringCache(keyring), file) : keyringCache(keyring);
}
