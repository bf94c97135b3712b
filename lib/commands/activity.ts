/** `svc activity`: who did what to which name, from where, with which result. */
import type { ActivityEntry } from "../api/activity.ts";
import { readActivity } from "../client/auth_keys.ts";
import type { ACTIVITY_OPTIONS } from "./auth_options.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import { parseTail, parseTime } from "./logs.ts";

// deno-lint-ignore no-control-regex -- exactly the characters that could drive the terminal
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g;

/** The verb of an operation whose action covers several. */
function verbOf(operation: string): string[] {
  const [method, path] = operation.split(" ");
  if (method === "DELETE") return ["delete"];
  const last = path.slice(path.lastIndexOf("/") + 1);
  return method === "POST" && path.includes("{name}/") ? [last] : [];
}

/** One entry as a line. Columns are not aligned: later entries are not known yet. */
function activityLine(entry: ActivityEntry): string {
  const { time, subject, remote, action, operation, name, result, status, code, count } = entry;
  const words = [
    time.replace(/\.\d+Z$/, "Z"),
    result.padEnd(6),
    action.padEnd(6),
    ...name === undefined ? [operation] : [...verbOf(operation), name],
    `by ${subject || "nobody"}`,
    `from ${remote}`,
    ...result === "ok" ? [] : [`(${code ?? status})`],
    ...count === undefined ? [] : [`x${count}`],
  ];
  return words.join(" ").replace(CONTROL, " ") + "\n";
}

export async function run(invocation: Invocation<typeof ACTIVITY_OPTIONS>): Promise<number> {
  const { io, values } = invocation;
  const entries = readActivity(await connect(invocation), {
    follow: values.follow,
    tail: parseTail(values.tail),
    since: values.since === undefined ? undefined : parseTime(values.since, "--since"),
  });
  for await (const entry of entries) {
    await io.stdout.write(
      values.output === "json" ? JSON.stringify(entry) + "\n" : activityLine(entry),
    );
  }
  return 0;
}
