/** Keys whose holders may open sessions: declared in the configuration, or enrolled in a file. */
import { dirname } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { ensureDir, ifThere, writeFileAtomic } from "../../base/fs.ts";
import type { Logger } from "../../base/log.ts";
import { Mutex } from "../../base/mutex.ts";
import { type FileWatch, watchFiles } from "../../base/watch_files.ts";
import { type AuthorizedKey, formatAuthorizedKey, parseAuthorizedKeys } from "./authorized_keys.ts";

export interface StoredKey extends AuthorizedKey {
  source: "declared" | "enrolled";
}

export interface KeyStoreOptions {
  /** SVC_AUTHORIZED_KEYS. */
  declared?: string;
  /** Path of the file of enrolled keys; absent: keys are declared only. */
  file?: string;
  log: Logger;
  /** Milliseconds between looks at the file. */
  everyMs?: number;
}

const HEAD =
  "# Keys enrolled with `svc auth keys add`; the comment is the identity. Changes are taken up at once.\n";

export class KeyStore implements Disposable {
  readonly #declared: ReadonlyMap<string, StoredKey>;
  #enrolled: ReadonlyMap<string, StoredKey> = new Map();
  readonly #file: string | undefined;
  readonly #log: Logger;
  readonly #writing = new Mutex();
  #watch: FileWatch | undefined;

  private constructor(declared: ReadonlyMap<string, StoredKey>, { file, log }: KeyStoreOptions) {
    this.#declared = declared;
    this.#file = file;
    this.#log = log;
  }

  /** Throws `config_invalid` for keys that cannot be read. */
  static async open(options: KeyStoreOptions): Promise<KeyStore> {
    const { declared = "", file, log, everyMs } = options;
    const store = new KeyStore(keyed(declared, "declared", "SVC_AUTHORIZED_KEYS"), options);
    if (file === undefined) return store;
    store.#watch = await watchFiles([file], {
      everyMs,
      onChange: async () => {
        try {
          store.#enrolled = await readKeys(file);
        } catch (error) {
          log.warn("cannot read the changed keys; the last good ones stay in use", { error });
        }
      },
    });
    try {
      store.#enrolled = await readKeys(file);
    } catch (error) {
      store[Symbol.dispose]();
      throw error;
    }
    return store;
  }

  /** True where keys can be enrolled and removed. */
  get enrolment(): boolean {
    return this.#file !== undefined;
  }

  list(): StoredKey[] {
    return [
      ...this.#declared.values(),
      ...[...this.#enrolled.values()].filter((key) => !this.#declared.has(key.key.fingerprint)),
    ];
  }

  /** The key with that fingerprint, if it is valid now. */
  find(fingerprint: string, now = Date.now()): StoredKey | undefined {
    const key = this.#declared.get(fingerprint) ?? this.#enrolled.get(fingerprint);
    return key && now < (key.expires ?? Infinity) ? key : undefined;
  }

  /**
   * Enrols a key; it is on disk when this resolves. False where the same key with the same settings was already
   * enrolled. Throws `conflict` where the key has other settings, `unsupported` where keys are declared only.
   */
  add(key: AuthorizedKey): Promise<boolean> {
    return this.#change(async (file) => {
      const { fingerprint } = key.key;
      const before = this.find(fingerprint) ?? this.#declared.get(fingerprint);
      if (before) {
        if (formatAuthorizedKey(before) === formatAuthorizedKey(key)) return false;
        throw new SvcError(
          "conflict",
          `Cannot enrol ${fingerprint}: it is enrolled already, as ${JSON.stringify(before.name)}`,
          { help: "remove it first with `svc auth keys rm`" },
        );
      }
      // An expired key can be enrolled again.
      const others = [...this.#enrolled.values()].filter((one) =>
        one.key.fingerprint !== fingerprint
      );
      await this.#write(file, [...others, { ...key, source: "enrolled" }]);
      return true;
    });
  }

  /** Removes a key; its sessions end. Throws `not_found`, or `conflict` for a declared key. */
  remove(fingerprint: string): Promise<void> {
    return this.#change(async (file) => {
      if (this.#declared.has(fingerprint)) {
        throw new SvcError(
          "conflict",
          `Cannot remove ${fingerprint}: it is declared in the server's configuration`,
          { help: "take it out of SVC_AUTHORIZED_KEYS" },
        );
      }
      if (!this.#enrolled.has(fingerprint)) {
        throw new SvcError("not_found", `Cannot remove ${fingerprint}: no such key is enrolled`);
      }
      const left = [...this.#enrolled.values()].filter(({ key }) =>
        key.fingerprint !== fingerprint
      );
      await this.#write(file, left);
    });
  }

  #change<T>(work: (file: string) => Promise<T>): Promise<T> {
    const file = this.#file;
    if (file === undefined) {
      throw new SvcError("unsupported", "Cannot change the keys: this server enrols none", {
        help: "set SVC_AUTH_KEYSTORE=file on the server, or declare keys in SVC_AUTHORIZED_KEYS",
      });
    }
    return this.#writing.run(async () => {
      try {
        // An operator may have edited the file a moment ago.
        this.#enrolled = await readKeys(file);
      } catch (cause) {
        throw new SvcError("conflict", "Cannot change the keys: the server's file cannot be read", {
          cause,
          help: "correct the file on the server; its log says what is wrong",
        });
      }
      return await work(file);
    });
  }

  async #write(file: string, keys: StoredKey[]): Promise<void> {
    const text = HEAD + keys.map((key) => `${formatAuthorizedKey(key)}\n`).join("");
    await ensureDir(dirname(file), 0o700);
    await writeFileAtomic(file, text, { mode: 0o600 });
    this.#enrolled = new Map(keys.map((key) => [key.key.fingerprint, key]));
    this.#log.info("wrote the enrolled keys", { file, keys: keys.length });
  }

  [Symbol.dispose](): void {
    this.#watch?.[Symbol.dispose]();
  }
}

function keyed(text: string, source: StoredKey["source"], from: string): Map<string, StoredKey> {
  try {
    return new Map(
      parseAuthorizedKeys(text).map((key) => [key.key.fingerprint, { ...key, source }]),
    );
  } catch (cause) {
    // Other servers take a path here; this setting holds the keys themselves.
    const isPath = source === "declared" && /^[.~]{0,2}\/\S*$/.test(text.trim());
    throw new SvcError("config_invalid", `Cannot read ${from}: ${(cause as Error).message}`, {
      cause,
      help: isPath
        ? `give the keys themselves: ${from}="$(cat ${text.trim()})"`
        : "correct the line; it is TYPE BASE64 NAME, with options before it",
    });
  }
}

async function readKeys(file: string): Promise<Map<string, StoredKey>> {
  const text = await ifThere(Deno.readTextFile(file));
  if (text === undefined) return new Map();
  return keyed(text, "enrolled", file);
}
