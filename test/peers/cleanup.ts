/**
 * Takes away what a server left on this host below its data directory: container processes, mounts and
 * files. For the end of a test, whatever state the server is in.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { eventually } from "../waits.ts";

/** Mount points at or below `root` in this mount namespace, deepest first. */
async function mountsBelow(root: string): Promise<string[]> {
  const table = await Deno.readTextFile("/proc/self/mountinfo");
  return table.split("\n").map((line) => (line.split(" ")[4] ?? "").replaceAll("\\040", " "))
    .filter((point) => point === root || point.startsWith(`${root}/`)).reverse();
}

async function readProc(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch {
    return ""; // the process is gone, or is not ours to look at
  }
}

async function readNamespace(pid: string): Promise<string> {
  try {
    return await Deno.readLink(`/proc/${pid}/ns/mnt`);
  } catch {
    return ""; // as above
  }
}

/**
 * True where this mount table shows something of `root` at another place, as a container's root is. A
 * namespace that was only copied from the host's has the host's mounts at their own places.
 */
const showsElsewhere = (table: string, root: string) =>
  table.split("\n").some((line) => {
    const point = line.split(" ")[4] ?? "";
    return line.includes(`${root}/`) && point !== root && !point.startsWith(`${root}/`);
  });

/**
 * Processes that belong to `root`: those in a mount namespace of their own that shows it (containers),
 * and those whose command line names it (their monitors).
 */
async function processesOf(root: string): Promise<number[]> {
  const own = await readNamespace("self");
  const found: number[] = [];
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === Deno.pid) continue;
    const namespace = await readNamespace(name);
    const container = namespace !== "" && namespace !== own &&
      showsElsewhere(await readProc(`/proc/${name}/mountinfo`), root);
    if (container || (await readProc(`/proc/${name}/cmdline`)).includes(`${root}/`)) {
      found.push(Number(name));
    }
  }
  return found;
}

/** What a server keeps outside its data directory, so that a reboot empties it. */
function runDirsOf(dataDir: string): string[] {
  const id = createHash("sha256").update(dataDir).digest("hex").slice(0, 12);
  const build = join("/run/svc/build", id);
  return [join("/run/svc", id), build, `${build}.bundles`, `${build}.netns`];
}

/** Kills, unmounts, removes. `dataDir` must be a directory that only the server under test used. */
export async function removeServerData(dataDir: string): Promise<void> {
  await removeBelow(dataDir);
  await removeRunState(dataDir);
}

/** The same for what is outside a data directory that stays. */
export async function removeRunState(dataDir: string): Promise<void> {
  for (const root of runDirsOf(dataDir)) await removeBelow(root);
}

async function removeBelow(root: string): Promise<void> {
  if (Deno.build.os === "linux" && Deno.uid() === 0) {
    await eventually(`the end of the processes of ${root}`, async () => {
      const processes = await processesOf(root);
      for (const pid of processes) Deno.kill(pid, "SIGKILL");
      return processes.length === 0;
    });
    for (const point of await mountsBelow(root)) {
      await new Deno.Command("umount", { args: ["-l", point], stderr: "null" }).output();
    }
  }
  await removeFolder(root);
}

/** Removes a folder in which something that is ending may write for a moment more. */
export async function removeFolder(path: string): Promise<void> {
  await eventually(`the removal of ${path}`, async () => {
    await Deno.remove(path, { recursive: true }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
    return true;
  });
}
