/** SVC_AUTH_TOKEN_FILE: a token in a file of its own, which is created where it is missing. */
import { randomBytes } from "node:crypto";
import { dirname } from "node:path";
import { fileTrouble, SvcError } from "../../base/errors.ts";
import { ensureDir, writeFileAtomic } from "../../base/fs.ts";
import type { Logger } from "../../base/log.ts";
import { parseAddress } from "../../config/address.ts";
import { visible } from "../../config/checks.ts";
import type { AuthSettings } from "../auth.ts";

const VARIABLE = "SVC_AUTH_TOKEN_FILE";

function refused(path: string, cause: unknown): SvcError {
  return new SvcError("config_invalid", `Cannot read ${VARIABLE}: ${path}: ${fileTrouble(cause)}`, {
    cause,
    help: "name a file that the server may read, or one that it may make",
  });
}

/** The file's token. Undefined where the file is missing and `make` is false. Throws `config_invalid`. */
export async function tokenFromFile(
  path: string,
  { addr, tlsCert }: Pick<AuthSettings, "addr" | "tlsCert">,
  { make, log }: { make: boolean; log: Logger },
): Promise<string | undefined> {
  try {
    const text = (await Deno.readTextFile(path)).trim();
    const { mode } = await Deno.stat(path);
    if (mode !== null && (mode & 0o007) !== 0) {
      log.warn(`${VARIABLE} is readable by every user of this host`, { file: path });
    }
    return visible(text, `${VARIABLE} (${path})`);
  } catch (error) {
    if (error instanceof SvcError) throw error;
    if (!(error instanceof Deno.errors.NotFound)) throw refused(path, error);
  }
  if (!make) return undefined;
  const token = randomBytes(32).toString("base64url");
  try {
    await ensureDir(dirname(path), 0o700);
    await writeFileAtomic(path, `${token}\n`, { mode: 0o600 });
  } catch (error) {
    throw refused(path, error);
  }
  const { port } = parseAddress(addr, "--addr");
  const server = `${tlsCert === undefined ? "http" : "https"}://localhost:${port}`;
  log.info("created a token: no credential is configured", {
    file: path,
    use: `SVC_SERVER=${server} svc login --token - < ${path}`,
  });
  return token;
}
