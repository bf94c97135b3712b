/** Processes below a process, as the kernel has them. */

/** The processes that this one has started, or taken over, and that it has not waited for. */
export function children(pid: number): number[] {
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

/** True where this process was started by that one, or by one that it started. */
export function isAncestor(pid: number): boolean {
  for (let one = Deno.ppid; one > 1;) {
    if (one === pid) return true;
    try {
      const stat = Deno.readTextFileSync(`/proc/${one}/stat`);
      // The name, in parentheses, may hold blanks: fields are counted after it.
      one = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
    } catch {
      return false; // it has ended
    }
  }
  return false;
}

/** An error means that the process has ended. */
function send(pid: number, signal: Deno.Signal): void {
  try {
    Deno.kill(pid, signal);
  } catch {
    // The process has ended.
  }
}

/**
 * Kills a process and all processes below it. Each is stopped before its children are looked up: it starts no
 * other one then, the end of a child that it waits for included.
 */
export function killTree(pid: number): void {
  const all = [pid];
  for (const one of all) {
    send(one, "SIGSTOP");
    all.push(...children(one));
  }
  for (const one of all.reverse()) send(one, "SIGKILL");
}
