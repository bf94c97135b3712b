/**
 * `svc doctor` checks the way to the server. `svc doctor storage URL` checks a bucket and needs no server; `svc
 * doctor s3 URL` is the same for S3 URLs.
 */
import { SvcError } from "../base/errors.ts";
import type { Invocation, StorageProbe } from "./command.ts";
import type { DOCTOR_OPTIONS } from "./doctor_options.ts";

function line({ operation, ok, needed, detail }: StorageProbe): string {
  const mark = ok ? "ok     " : needed ? "MISSING" : "without";
  return `${mark}  ${operation}${detail ? `\n         ${detail}` : ""}\n`;
}

export async function run(invocation: Invocation<typeof DOCTOR_OPTIONS>): Promise<number> {
  const { values, positionals, io, hooks } = invocation;
  const [subject, location] = positionals;
  if (subject === undefined) {
    const { runClientDoctor } = await import("./doctor/client.ts");
    return await runClientDoctor(invocation);
  }
  if (subject !== "s3" && subject !== "storage") {
    throw new SvcError("usage", `Cannot run doctor: ${JSON.stringify(subject)} is not storage`, {
      help: "usage: svc doctor storage URL",
    });
  }
  if (location === undefined) {
    throw new SvcError("usage", "Cannot run doctor: URL is missing", {
      help: `usage: svc doctor ${subject} URL`,
    });
  }
  const schemes = subject === "s3" ? ["s3"] : ["s3", "gs", "azblob"];
  if (!schemes.some((scheme) => location.toLowerCase().startsWith(`${scheme}://`))) {
    const choice = schemes.map((scheme) => `${scheme}://`).join(" or ");
    throw new SvcError("usage", `Cannot run doctor: the URL does not begin with ${choice}`, {
      help: `usage: svc doctor ${subject} s3://BUCKET?region=R`,
    });
  }
  if (!hooks) throw new SvcError("internal", "Cannot run doctor: no storage backend was composed");
  let works = true;
  for await (const probe of hooks.probeStorage(location, io.signal)) {
    if (probe.needed && !probe.ok) works = false;
    await io.stdout.write(values.output === "json" ? JSON.stringify(probe) + "\n" : line(probe));
  }
  return works ? 0 : 1;
}
