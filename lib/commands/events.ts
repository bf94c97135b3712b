/** `svc events [NAME…]`: what instances do, from now on. */
import type { InstanceEvent } from "../api/deployment.ts";
import { SvcError } from "../base/errors.ts";
import { readEvents } from "../client/workloads.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";

// deno-lint-ignore no-control-regex -- exactly the characters that could drive the terminal
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g;

/** "2026-01-31T12:00:00Z died web-0 (exit code 1)". */
function eventLine(event: InstanceEvent): string {
  const { time, type, instance } = event;
  const how = event.type === "died" ? ` (exit code ${event.exitCode})` : "";
  return `${time} ${type.padEnd(9)} ${instance}${how}`.replace(CONTROL, " ") + "\n";
}

export async function run(invocation: Invocation): Promise<number> {
  const { io, values, positionals } = invocation;
  for await (const event of readEvents(await connect(invocation), positionals)) {
    await io.stdout.write(
      values.output === "json" ? JSON.stringify(event) + "\n" : eventLine(event),
    );
  }
  // The events have no end of their own.
  throw new SvcError("unavailable", "Cannot go on with the events: the server has ended them", {
    help: "it is shutting down, or its backend has closed",
  });
}
