/** How many files and sockets this process may have open at once; where nothing says so: `Infinity`. */
export async function openFileLimit(): Promise<number> {
  const limits = await Deno.readTextFile("/proc/self/limits").catch(() => "");
  return Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Infinity);
}
