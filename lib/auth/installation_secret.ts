/**
 * The installation's secret. All keys with which this server signs are derived from it. Replicas with the same
 * secret accept each other's tokens.
 */
import { hkdfSync, randomBytes } from "node:crypto";
import { join } from "node:path";
import { fileTrouble, SvcError } from "../base/errors.ts";
import { writeFileAtomic } from "../base/fs.ts";

/** In the data directory, mode 0600. */
const SECRET_FILE = "installation.key";

/** Shorter secrets could be guessed from a token by trial. */
const SHORT = 32;

export class InstallationSecret {
  readonly #secret: string;

  /** `shared`: other processes may have the secret too. */
  constructor(secret: string, readonly shared = false) {
    this.#secret = secret;
  }

  /** A key of 32 bytes for one purpose; it reveals nothing about the keys of other purposes. */
  key(purpose: string): Uint8Array {
    return new Uint8Array(hkdfSync("sha256", this.#secret, "svc installation", purpose, 32));
  }
}

export interface LoadSecretOptions {
  dataDir: string;
  /** SVC_INSTALLATION_SECRET. Absent: the secret in the data directory, which is made where it is missing. */
  configured?: string;
  warn: (message: string) => void;
}

/** Throws `config_invalid` where the file cannot be read or holds no secret. */
export async function loadInstallationSecret(
  { dataDir, configured, warn }: LoadSecretOptions,
): Promise<InstallationSecret> {
  if (configured !== undefined) {
    if (configured.length < SHORT) {
      warn(`SVC_INSTALLATION_SECRET has fewer than ${SHORT} characters: it can be guessed`);
    }
    return new InstallationSecret(configured, true);
  }
  const path = join(dataDir, SECRET_FILE);
  const refused = (why: string, cause?: unknown) =>
    new SvcError("config_invalid", `Cannot read the installation secret ${path}: ${why}`, {
      cause,
      help: "restore the file, or remove it to get a new secret, which ends all sessions",
    });
  let text: string;
  try {
    text = (await Deno.readTextFile(path)).trim();
    const { mode } = await Deno.stat(path);
    if (mode !== null && (mode & 0o077) !== 0) {
      await Deno.chmod(path, 0o600);
      warn(`${path} was readable by others and is not any more; its secret may be known to them`);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw refused(fileTrouble(error), error);
    text = randomBytes(32).toString("base64url");
    await writeFileAtomic(path, `${text}\n`, { mode: 0o600 });
  }
  if (text.length < SHORT) throw refused("it is damaged");
  return new InstallationSecret(text);
}
