/** Processes below a process, as the kernel has them. */

function children(pid: number): number[] {
  const found: number[] = [];
  try {
    // Each thread has its own list of children.
    for (const { name } of Deno.readDirSync(`/proc/${pid}/task`)) {
      const text = Deno.readTextFileSync(`/proc/${pid}/task/${name}/children`);
      found.push(...text.split(" ").filter(Boolean).map(Number));
    }
  } catch {
    // The process has ended.
  }
  return found;
}

/**
 * Kills a process and all processes below it, the last found first, so that none of them starts another
 * meanwhile.
 */
export function killTree(pid: number): void {
  const all = [pid];
  for (const one of all) all.push(...children(one));
  for (const one of all.reverse()) {
    try {
      Deno.kill(one, "SIGKILL");
    } catch {
      // The process has ended.
    }
  }
}
