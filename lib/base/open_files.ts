/** Most files and sockets that this process may have open; `Infinity` where the system does not say. */
export async function openFileLimit(): Promise<number> {
  const limits = await Deno.readTextFile("/proc/self/limits").catch(() => "");
  return Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Infinity);
}
