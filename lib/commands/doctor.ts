/** `svc doctor s3 URL`: needs no server. */
import { SvcError } from "../base/errors.ts";
import type { Invocation, StorageProbe } from "./command.ts";

function line({ operation, ok, needed, detail }: StorageProbe): string {
  const mark = ok ? "ok     " : needed ? "MISSING" : "without";
  return `${mark}  ${operation}${detail ? `\n         ${detail}` : ""}\n`;
}

export async function run({ values, positionals, io, hooks }: Invocation): Promise<number> {
  const [subject, location] = positionals;
  if (subject !== "s3") {
    throw new SvcError("usage", `Cannot run doctor: ${JSON.stringify(subject)} is not s3`, {
      help: "usage: svc doctor s3 URL",
    });
  }
  if (!/^s3:\/\//i.test(location)) {
    throw new SvcError("usage", "Cannot run doctor: the URL does not begin with s3://", {
      help: "usage: svc doctor s3 s3://BUCKET?region=R",
    });
  }
  if (!hooks) throw new SvcError("internal", "Cannot run doctor: no storage backend was composed");
  let works = true;
  for await (const probe of hooks.probeS3(location, io.signal)) {
    if (probe.needed && !probe.ok) works = false;
    await io.stdout.write(values.output === "json" ? JSON.stringify(probe) + "\n" : line(probe));
  }
  return works ? 0 : 1;
}
