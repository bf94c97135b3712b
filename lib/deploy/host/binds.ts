/**
 * Bind sources of an instance. The runtime must not get a source's path: a workload that may write to a folder
 * above it could let the path lead elsewhere by the next start. So every start opens each source under the
 * policy and mounts the opened file at a place of the server's own. The runtime gets that place. Once the
 * container exists, the mount is removed; where the engine starts containers again by itself, with the container.
 */
import { join } from "node:path";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { ensureDir, ifThere } from "../../base/fs.ts";
import { openSource } from "../bind_policy.ts";
import type { SpecMount } from "../../runtime/mounts.ts";
import { S_IFDIR, S_IFMT, statFd } from "../../sys/files.ts";
import { mount, MS, unmount } from "../../sys/mount.ts";

const fieldOf = (index: number) => `mounts[${index}].source`;

export class BindMounts {
  #folder: string;
  #allowed: readonly string[];

  /**
   * `folder`: below the run folder, and never below a bundle: removing a bundle must not remove the contents of
   * a mount. `allowed`: SVC_ALLOW_BIND_SOURCES.
   */
  constructor(folder: string, allowed: readonly string[]) {
    this.#folder = folder;
    this.#allowed = allowed;
  }

  #place(key: string, index: number): string {
    return join(this.#folder, key, `${index}`);
  }

  /** Checks the sources before anything is made. Throws `denied`, or `not_found`. */
  async check(spec: DeploySpec): Promise<void> {
    for (const [index, { source }] of spec.mounts.entries()) {
      using _open = await openSource(source, this.#allowed, fieldOf(index));
    }
  }

  /** The mounts that the engine gets. */
  mounts(key: string, spec: DeploySpec): SpecMount[] {
    return spec.mounts.map(({ target, readOnly }, index) => ({
      type: "bind",
      source: this.#place(key, index),
      target,
      readOnly,
    }));
  }

  /** Mounts the sources for the engine, until the result is disposed of. Throws as {@linkcode check}. */
  async place(key: string, spec: DeploySpec): Promise<AsyncDisposable> {
    const remove = () => this.remove(key);
    if (spec.mounts.length > 0) {
      await remove();
      try {
        await ensureDir(join(this.#folder, key), 0o700);
        for (const [index, { source }] of spec.mounts.entries()) {
          using opened = await openSource(source, this.#allowed, fieldOf(index));
          const place = this.#place(key, index);
          if ((statFd(opened.fd).mode & S_IFMT) === S_IFDIR) await Deno.mkdir(place);
          else await Deno.writeFile(place, new Uint8Array(), { createNew: true });
          mount(`/proc/self/fd/${opened.fd}`, place, "", MS.BIND | MS.REC);
          // Private: unmounting this place must not unmount anything below the source.
          mount("none", place, "", MS.PRIVATE | MS.REC);
        }
      } catch (error) {
        await remove();
        throw error;
      }
    }
    return { [Symbol.asyncDispose]: remove };
  }

  /** Removes the mounts of a start; a mount that cannot be removed stays, with its place. Missing is fine. */
  async remove(key: string): Promise<void> {
    const folder = join(this.#folder, key);
    const names = await ifThere(Array.fromAsync(Deno.readDir(folder)));
    if (!names) return;
    for (const { name } of names) {
      const place = join(folder, name);
      while (unmount(place, { detach: true }));
      // Not recursive: the folder is empty, or something is still mounted there.
      await Deno.remove(place);
    }
    await Deno.remove(folder);
  }
}
