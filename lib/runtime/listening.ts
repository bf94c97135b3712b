/** Which TCP ports are listened on in a process's network namespace, without connecting to any. */

/** State of a listening socket in /proc/PID/net/tcp (include/net/tcp_states.h). */
const LISTEN = "0A";

/** Ports of the listening sockets in the text of /proc/PID/net/tcp or tcp6. */
export function listeningPorts(text: string): number[] {
  return text.split("\n").slice(1).flatMap((line) => {
    const [, local, , state] = line.trim().split(/\s+/);
    return state === LISTEN ? [parseInt(local.slice(local.lastIndexOf(":") + 1), 16)] : [];
  });
}

/** True where all of `ports`, at least one, are listened on; false where the process is gone. */
export async function listensOn(pid: number, ports: readonly number[]): Promise<boolean> {
  if (ports.length === 0) return false;
  const texts = await Promise.all(
    ["tcp", "tcp6"].map((name) => Deno.readTextFile(`/proc/${pid}/net/${name}`).catch(() => "")),
  );
  const open = new Set(texts.flatMap(listeningPorts));
  return ports.every((port) => open.has(port));
}
