/** `svc logs NAME`: writes each line to the stream that it came from. */
import { LinePrefixer } from "../api/log_bytes.ts";
import { parseDuration } from "../base/duration.ts";
import { SvcError } from "../base/errors.ts";
import type { Client } from "../client/client.ts";
import { getDeployment, readLogs } from "../client/deployments.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import type { LOGS_OPTIONS } from "./options.ts";

/** RFC 3339, Unix seconds, or a duration back from `now`. Throws `argument_invalid`. */
export function parseTime(text: string, flag: string, now = Date.now()): Date {
  if (/^\d+(\.\d+)?$/.test(text)) return new Date(Number(text) * 1000);
  if (/^\d{4}-\d\d-\d\d/.test(text)) {
    const date = new Date(text);
    if (!Number.isNaN(date.getTime())) return date;
  } else {
    try {
      return new Date(now - parseDuration(text));
    } catch {
      // The error below lists all accepted forms.
    }
  }
  throw new SvcError(
    "argument_invalid",
    `Cannot read ${flag} ${
      JSON.stringify(text)
    }: expected a duration such as 10m, an RFC 3339 time or Unix seconds`,
  );
}

export function parseTail(text: string): number | undefined {
  if (text === "all" || text === "-1") return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  throw new SvcError(
    "argument_invalid",
    `Cannot read --tail ${JSON.stringify(text)}: expected a number of lines or all`,
  );
}

/** Whether lines need the instance's name. False for a caller who may read logs but not the status. */
async function isReplicated(client: Client, name: string): Promise<boolean> {
  try {
    return (await getDeployment(client, name)).instances.length > 1;
  } catch (error) {
    if (error instanceof SvcError && error.code === "denied") return false;
    throw error;
  }
}

export async function run(invocation: Invocation<typeof LOGS_OPTIONS>): Promise<number> {
  const { io, values, positionals: [name] } = invocation;
  const query = {
    follow: values.follow,
    tail: parseTail(values.tail),
    since: values.since === undefined ? undefined : parseTime(values.since, "--since"),
    until: values.until === undefined ? undefined : parseTime(values.until, "--until"),
    instance: values.instance,
  };
  const client = await connect(invocation);
  const json = values.output === "json";
  const several = !json && values.instance === undefined &&
    await isReplicated(client, name);
  const lines = new LinePrefixer();
  for await (const frame of readLogs(client, name, query)) {
    if (json) {
      await io.stdout.write(JSON.stringify(frame) + "\n");
      continue;
    }
    const prefix = (several ? `${frame.instance} | ` : "") +
      (values.timestamps ? `${frame.time} ` : "");
    await io[frame.stream].write(lines.print(frame, prefix));
  }
  return 0;
}
