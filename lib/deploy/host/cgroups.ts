/** The cgroups of a running container, of version 1 and 2, as the kernel's files show them. */
import { join } from "node:path";
import { hostFacts } from "../../runtime/host_facts.ts";
import type { ProcessIdentity } from "./engine.ts";
import { isAlive } from "./process.ts";

const ROOT = "/sys/fs/cgroup";

/** Controllers of version 1 whose files are read. */
export type Controller = "cpuacct" | "memory" | "pids" | "blkio";

/** The text of a kernel's file; undefined where there is none. */
export const kernelText = (path: string): Promise<string | undefined> =>
  // Our own: the kernel's file.
  Deno.readTextFile(path).catch(() => undefined);

/** The text of a file of that very process below /proc; undefined where it has ended. */
export async function textOf(process: ProcessIdentity, file: string): Promise<string | undefined> {
  const text = await kernelText(`/proc/${process.pid}/${file}`);
  // Asked after the read: another process may have the pid by now.
  return await isAlive(process) ? text : undefined;
}

/** Folders of the cgroups that a process is in. */
export class Cgroups {
  readonly unified: boolean;
  #paths: Map<string, string>;

  private constructor(unified: boolean, paths: Map<string, string>) {
    this.unified = unified;
    this.#paths = paths;
  }

  /** Undefined where the process has gone. */
  static async of(process: ProcessIdentity): Promise<Cgroups | undefined> {
    const [text, { cgroup2 }] = await Promise.all([textOf(process, "cgroup"), hostFacts()]);
    if (text === undefined) return undefined;
    // Lines of cgroups(7): "ID:CONTROLLERS:PATH"; version 2 has no controllers there.
    const paths = new Map<string, string>();
    for (const line of text.trim().split("\n")) {
      const [, controllers, ...path] = line.split(":");
      for (const controller of controllers.split(",")) paths.set(controller, path.join(":"));
    }
    return new Cgroups(cgroup2, paths);
  }

  /** The folder with that controller's files; undefined where there is none. */
  folder(controller: Controller): string | undefined {
    const path = this.#paths.get(this.unified ? "" : controller);
    if (path === undefined || path === "/") return undefined;
    return this.unified ? join(ROOT, path) : join(ROOT, controller, path);
  }

  /** The text of one of the controller's files. */
  async read(controller: Controller, file: string): Promise<string | undefined> {
    const folder = this.folder(controller);
    return folder && await kernelText(join(folder, file));
  }

  /** The ids of all processes, also of those in cgroups that the container made itself. */
  async processes(): Promise<number[]> {
    const folder = this.folder("pids") ?? this.folder("memory");
    return folder === undefined ? [] : await processesBelow(folder);
  }
}

async function processesBelow(folder: string): Promise<number[]> {
  const own = (await kernelText(join(folder, "cgroup.procs")) ?? "").split("\n").filter(Boolean);
  const entries = await Array.fromAsync(Deno.readDir(folder)).catch(() => []);
  const below = await Promise.all(
    entries.filter((entry) => entry.isDirectory).map(({ name }) =>
      processesBelow(join(folder, name))
    ),
  );
  return [...own.map(Number), ...below.flat()];
}
