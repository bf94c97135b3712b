/**
 * Bind sources of an instance. A path is no way to hand one to the runtime: a workload that may write to a
 * folder above it could have it lead elsewhere by the instance's next start. So at every start each source is
 * opened as the policy allows it, and what was opened is mounted at a place of the server's own, which the
 * runtime is told of. Once the container is made, that mount is not needed any more.
 */
import { join } from "node:path";
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import { ensureDir } from "../../../lib/base/fs.ts";
import { openSource } from "../../../lib/deploy/bind_policy.ts";
import { decodeDocument, encodeDocument } from "../../../lib/runtime/document.ts";
import type { SpecMount } from "../../../lib/runtime/mounts.ts";
import type { RuntimeSpec } from "../../../lib/runtime/spec.ts";
import { S_IFDIR, S_IFMT, statFd } from "../../../lib/sys/files.ts";
import { mount, MS, unmount } from "../../../lib/sys/mount.ts";
import type { Host } from "./host.ts";

/** Below the run folder, never below the bundle: what is mounted there must not be removed with it. */
const folderOf = (host: Host, key: string) => join(host.paths.binds, key);

const placeOf = (host: Host, key: string, index: number) => join(folderOf(host, key), `${index}`);

const fieldOf = (index: number) => `mounts[${index}].source`;

/** Before anything is made. Throws `denied`, or `not_found`. */
export async function checkBinds(host: Host, spec: DeploySpec): Promise<void> {
  for (const [index, { source }] of spec.mounts.entries()) {
    using _open = await openSource(source, host.config.allowBindSources, fieldOf(index));
  }
}

/** What the runtime is told. */
export function bindMounts(host: Host, key: string, spec: DeploySpec): SpecMount[] {
  return spec.mounts.map(({ target, readOnly }, index) => ({
    type: "bind",
    source: placeOf(host, key, index),
    target,
    readOnly,
  }));
}

/** Mounts the sources for the runtime, until it is disposed of. Throws as {@linkcode checkBinds}. */
export async function placeBinds(
  host: Host,
  key: string,
  spec: DeploySpec,
  bundle: string,
): Promise<AsyncDisposable> {
  const remove = () => removeBinds(host, key);
  if (spec.mounts.length > 0) {
    await remove();
    try {
      await ensureDir(folderOf(host, key), 0o700);
      for (const [index, { source }] of spec.mounts.entries()) {
        using opened = await openSource(source, host.config.allowBindSources, fieldOf(index));
        const place = placeOf(host, key, index);
        if ((statFd(opened.fd).mode & S_IFMT) === S_IFDIR) await Deno.mkdir(place);
        else await Deno.writeFile(place, new Uint8Array(), { createNew: true });
        mount(`/proc/self/fd/${opened.fd}`, place, "", MS.BIND | MS.REC);
        // Its end is nobody else's: what is mounted below the source stays there.
        mount("none", place, "", MS.PRIVATE | MS.REC);
      }
      await tellPlaces(host, key, spec, bundle);
    } catch (error) {
      await remove();
      throw error;
    }
  }
  return { [Symbol.asyncDispose]: remove };
}

/** Bundles of earlier versions name the sources themselves. */
async function tellPlaces(host: Host, key: string, spec: DeploySpec, bundle: string) {
  const path = join(bundle, "config.json");
  // Our own: the bundle's document.
  const document = decodeDocument<RuntimeSpec>(await Deno.readTextFile(path));
  let changed = false;
  for (const { source, target } of bindMounts(host, key, spec)) {
    const entry = document.mounts.find((one) => one.destination === target);
    if (!entry || entry.source === source) continue;
    entry.source = source!;
    changed = true;
  }
  if (changed) await Deno.writeTextFile(path, encodeDocument(document), { mode: 0o600 });
}

/** Takes away what a start left behind; a mount that cannot be ended stays, with its place. */
async function removeBinds(host: Host, key: string): Promise<void> {
  const folder = folderOf(host, key);
  const names = await Array.fromAsync(Deno.readDir(folder)).catch((error) => {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  });
  if (!names) return;
  for (const { name } of names) {
    const place = join(folder, name);
    while (unmount(place, { detach: true }));
    // Not with what is in it: it is empty, or something is mounted still.
    await Deno.remove(place);
  }
  await Deno.remove(folder);
}
