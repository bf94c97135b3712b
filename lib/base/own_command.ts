/** How this program is started again. */
import { buildInfo } from "./build_info.ts";
import { resolve } from "./path.ts";

/**
 * Program and arguments that start this program with `args`: its launcher where it has one, else the runtime as
 * it was started itself. Linux only.
 */
export async function ownCommand(args: readonly string[]): Promise<string[]> {
  const { executable } = buildInfo();
  if (executable !== undefined && executable !== Deno.execPath()) {
    return [resolve(executable), ...args];
  }
  const words = (await Deno.readTextFile("/proc/self/cmdline")).split("\0").slice(1, -1);
  const before = words.slice(0, words.length - Deno.args.length);
  return [await Deno.readLink("/proc/self/exe"), ...before, ...args];
}
