/** A program in the namespaces of a peer, as on the peer's own host. */
import { join } from "node:path";

/**
 * Writes a program that runs `executable` there, to be started, and ended by SIGTERM, as that one. `inside`: of the
 * peer; see `Namespace.inside`.
 */
export async function executableWithin(
  folder: string,
  executable: string,
  inside: (...command: string[]) => string[],
): Promise<string> {
  const path = join(folder, "svc-within");
  const command = inside(executable).map((word) => `'${word}'`).join(" ");
  const lines = [
    "#!/bin/sh",
    `${command} "$@" &`,
    "nsenter=$!",
    // nsenter waits for the program, and passes no signals on.
    "trap 'kill -TERM $(cat /proc/$nsenter/task/$nsenter/children)' TERM",
    "wait $nsenter; code=$?",
    "while kill -0 $nsenter 2>/dev/null; do wait $nsenter; code=$?; done",
    "exit $code",
    "",
  ];
  await Deno.writeTextFile(path, lines.join("\n"), { mode: 0o755 });
  return path;
}
