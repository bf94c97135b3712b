/**
 * Credentials that are delivered as files: each deployment has a tmpfs of its own on this host, whose files are
 * mounted into its workload. Only root enters the folder; inside, any user of the workload may read its files.
 * A renewed file is written in place, as the workload's mount keeps the file: a reader at that very moment may see
 * a part of it.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { asSvcError } from "../../base/errors.ts";
import { ensureDir, ifThere, namesIn } from "../../base/fs.ts";
import { mount, MS, unmount } from "../../sys/mount.ts";

/** Bytes of one deployment's files, at most. */
const SIZE = "8m";
const FLAGS = MS.NOSUID | MS.NODEV | MS.NOEXEC;

/** The folder of one server's credentials, which a reboot empties. */
export const credentialFolder = (
  { runDir, dataDir }: { runDir: string; dataDir: string },
): string =>
  join(runDir, createHash("sha256").update(dataDir).digest("hex").slice(0, 12), "credentials");

const nameOf = (index: number) => String(index);
/** The file of variables. */
const VARIABLES = "variables.json";

export class CredentialFiles {
  readonly #root: string;

  /** `root`: below the run folder. */
  constructor(root: string) {
    this.#root = root;
  }

  /** Where the workload's mount comes from. */
  path(deployment: string, index: number): string {
    return join(this.#root, deployment, nameOf(index));
  }

  /** Where the deployment's variables are, as JSON that only root reads. */
  variablesPath(deployment: string): string {
    return join(this.#root, deployment, VARIABLES);
  }

  /** Writes the variables of an opened deployment. */
  async writeVariables(deployment: string, values: Record<string, string>): Promise<void> {
    const path = this.variablesPath(deployment);
    try {
      await Deno.writeTextFile(path, JSON.stringify(values), { mode: 0o600 });
    } catch (error) {
      throw asSvcError(error, `Cannot write a credential of ${deployment}`);
    }
  }

  /** Makes the deployment's folder, empty. */
  async open(deployment: string): Promise<void> {
    await this.remove(deployment);
    const folder = join(this.#root, deployment);
    try {
      await ensureDir(this.#root, 0o700);
      await Deno.mkdir(folder, { mode: 0o700 });
      mount("svc-credentials", folder, "tmpfs", FLAGS, `mode=0700,size=${SIZE}`);
    } catch (error) {
      throw asSvcError(error, `Cannot make a place for the credentials of ${deployment}`);
    }
  }

  /** Writes a file of an opened deployment, or renews it. */
  async write(deployment: string, index: number, text: string): Promise<void> {
    const bytes = new TextEncoder().encode(text);
    const path = this.path(deployment, index);
    try {
      // Not truncated first: a reader meanwhile would find it empty.
      using file = await Deno.open(path, { write: true, create: true, mode: 0o444 });
      for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
      await file.truncate(bytes.length);
      await Deno.chmod(path, 0o444);
    } catch (error) {
      // The system's words name the path, and nothing of the content.
      throw asSvcError(error, `Cannot write a credential of ${deployment}`);
    }
  }

  /** Empties and removes the deployment's files, also for a workload that still has them. Idempotent. */
  async remove(deployment: string): Promise<void> {
    const folder = join(this.#root, deployment);
    for (const name of await namesIn(folder)) await ifThere(Deno.truncate(join(folder, name)));
    while (unmount(folder, { detach: true }));
    await ifThere(Deno.remove(folder));
  }

  /** Removes the files of all deployments but those: a killed server leaves them. */
  async sweep(keep: (deployment: string) => boolean): Promise<void> {
    for (const name of await namesIn(this.#root)) if (!keep(name)) await this.remove(name);
  }
}
