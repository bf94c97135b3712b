/** Which server a container, network or volume of a shared engine belongs to. */
import { join } from "node:path";
import { SvcError } from "../../../../lib/base/errors.ts";
import { ensureDir, exists, writeFileAtomic } from "../../../../lib/base/fs.ts";

/** The identity of the server whose data are in `folder`: made on first use, 32 hexadecimal digits. */
export async function serverIdentity(folder: string): Promise<string> {
  const path = join(folder, "server");
  if (!await exists(path)) {
    await ensureDir(folder, 0o700);
    await writeFileAtomic(path, `${crypto.randomUUID().replaceAll("-", "")}\n`, { mode: 0o600 });
  }
  // Our own: the identity in the data directory.
  const text = (await Deno.readTextFile(path)).trim();
  if (/^[0-9a-f]{32}$/.test(text)) return text;
  throw new SvcError("config_invalid", `Cannot use ${path}: it is not a server's identity`, {
    help:
      "restore the file from the label svc.server of this server's containers, or remove it to " +
      "start without them",
  });
}
