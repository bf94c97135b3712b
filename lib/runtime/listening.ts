/** The ports that a process's network namespace listens on, and its busy connections, without connecting. */
import { run } from "../base/process.ts";

export interface SocketPort {
  container: number;
  protocol: "tcp" | "udp" | "sctp";
}

/**
 * States in /proc/PID/net/tcp and udp (include/net/tcp_states.h). For UDP, a socket without a peer has the
 * state "closed".
 */
const OPEN = { tcp: "0A", udp: "07" };
const LOOPBACK = /^(0100007F|00000000000000000000000001000000):/;

/** Listening ports in the text of /proc/PID/net/tcp, tcp6, udp or udp6, without those of loopback. */
export function openPorts(text: string, protocol: "tcp" | "udp"): number[] {
  return text.split("\n").slice(1).flatMap((line) => {
    const [, local, , state] = line.trim().split(/\s+/);
    if (state !== OPEN[protocol] || LOOPBACK.test(local)) return [];
    return [parseInt(local.slice(local.lastIndexOf(":") + 1), 16)];
  });
}

/** The `ports` that are listened on; none where the process is gone. SCTP ports are never known. */
export async function listenedOn<T extends SocketPort>(
  pid: number,
  ports: readonly T[],
): Promise<T[]> {
  const open = new Set<string>();
  for (const protocol of ["tcp", "udp"] as const) {
    if (!ports.some((port) => port.protocol === protocol)) continue;
    const texts = await Promise.all(
      [protocol, `${protocol}6`].map((name) =>
        Deno.readTextFile(`/proc/${pid}/net/${name}`).catch(() => "")
      ),
    );
    for (const text of texts) {
      for (const port of openPorts(text, protocol)) open.add(`${port}/${protocol}`);
    }
  }
  return ports.filter(({ container, protocol }) => open.has(`${container}/${protocol}`));
}

/** A connection with traffic within so many milliseconds is not idle. */
const LIVELY_MS = 200;

/**
 * The number of incoming connections that wait for an answer or carry one now, in the output of `ss -tinHO`. A
 * connection whose last bytes were the answer is only kept for later requests.
 */
export function busyConnections(text: string, listening: ReadonlySet<number>): number {
  return text.split("\n").filter((line) => {
    const local = /^\S+\s+\d+\s+\d+\s+(\S+):(\d+)\s/.exec(line);
    if (!local || !listening.has(Number(local[2]))) return false;
    const since = (name: string) => Number(new RegExp(` ${name}:(\\d+)`).exec(line)?.[1] ?? 0);
    const [sent, received] = [since("lastsnd"), since("lastrcv")];
    // A first request may have come with the connection: then both times are equal.
    const unanswered = received < sent ||
      !line.includes(" bytes_sent:") && since("bytes_received") > 0;
    return unanswered || Math.min(sent, received) < LIVELY_MS;
  }).length;
}

/** The busy connections in a process's namespace; 0 where the process is gone. */
export async function inFlight(pid: number): Promise<number> {
  const listening = new Set<number>();
  for (const name of ["tcp", "tcp6"]) {
    const text = await Deno.readTextFile(`/proc/${pid}/net/${name}`).catch(() => "");
    for (const port of openPorts(text, "tcp")) listening.add(port);
  }
  if (listening.size === 0) return 0;
  const states = ["state", "established", "state", "close-wait"];
  const namespace = ["-t", String(pid), "-n", "ss", "-tinHO", ...states];
  const { code, stdout } = await run("nsenter", namespace);
  return code === 0 ? busyConnections(stdout, listening) : 0;
}
