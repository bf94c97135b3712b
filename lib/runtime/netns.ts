/** Network namespaces kept by a bind mount on a file, so that they exist without a process in them. */
import { ifThere } from "../base/fs.ts";
import { dirname } from "node:path";
import { runOk } from "../base/process.ts";

/** Makes a new namespace at `path`. Its folder must exist. */
export async function createNetns(path: string, signal?: AbortSignal): Promise<void> {
  await Deno.writeTextFile(path, "", { mode: 0o600 });
  await runOk("Cannot make a network namespace", "unshare", [`--net=${path}`, "true"], { signal });
}

/** True where a namespace is mounted at `path`. */
export async function hasNetns(path: string): Promise<boolean> {
  const [file, folder] = await Promise.all([
    Deno.stat(path).catch(() => undefined),
    Deno.stat(dirname(path)).catch(() => undefined),
  ]);
  return file !== undefined && folder !== undefined && file.dev !== folder.dev;
}

/** Unmounts and removes; missing is fine. The namespace itself goes with its last process. */
export async function removeNetns(path: string): Promise<void> {
  while (await hasNetns(path)) {
    await runOk("Cannot remove a network namespace", "umount", ["--lazy", path]);
  }
  await ifThere(Deno.remove(path));
}
