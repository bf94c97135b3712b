/** A person at a terminal with the client under test. */
import { runOnTerminal } from "../../lib/sys/pty.ts";
import { Person } from "../fixtures/person.ts";
import { EXECUTABLE, type Server } from "./harness.ts";

/** Without the person's own settings of svc. */
const OWN_ENV = Object.fromEntries(
  Object.entries(Deno.env.toObject()).filter(([name]) => !name.startsWith("SVC_")),
);

export const SIZE = { columns: 101, rows: 37 };

/** Says what it ran and whether the terminal is as it was, whatever became of svc. */
const AROUND = `before=$(stty -g)
sh -c 'echo "pid $$."; exec "$@"' sh "$@"
code=$?
if [ "$before" = "$(stty -g)" ]; then echo "ended with $code, as before"; else echo "ended raw"; fi`;

/** `svc ARGS` in a window. */
export async function sit(server: Server, args: string[], env: Record<string, string> = {}) {
  const process = await runOnTerminal("sh", ["-c", AROUND, "sh", EXECUTABLE, ...args], {
    size: SIZE,
    env: {
      ...OWN_ENV,
      SVC_CONFIG: "/nonexistent/svc-test-config.yaml",
      SVC_SERVER: server.url,
      TERM: "xterm-test",
      ...env,
    },
  });
  const person = new Person(process);
  const [, pid] = await person.sees(/pid (\d+)\.\r\n/);
  return { process, person, pid: Number(pid) };
}
