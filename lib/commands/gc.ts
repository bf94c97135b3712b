/** `svc gc`: collects the server's garbage. */
import { asIs, harmless } from "../base/terminal.ts";
import type { GcResult } from "../api/storage.ts";
import { formatBytes } from "../base/bytes.ts";
import { formatDuration } from "../base/duration.ts";
import { collectGarbage } from "../client/storage.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import type { GC_OPTIONS } from "./storage_options.ts";

const count = (number: number, noun: string) => `${number} ${noun}${number === 1 ? "" : "s"}`;

export function gcText(result: GcResult, dryRun: boolean): string {
  const cache = result.buildCacheBytesReclaimed;
  const lines = [
    `${dryRun ? "Would delete" : "Deleted"} ${count(result.blobsDeleted, "blob")} (${
      formatBytes(result.bytesReclaimed)
    }) and ${count(result.manifestsDeleted, "manifest")} in ${formatDuration(result.durationMs)}.`,
  ];
  if (cache > 0) lines.push(`Build cache: ${formatBytes(cache)}.`);
  const unpacked = result.unpackedBytesReclaimed ?? 0;
  if (unpacked > 0) lines.push(`Unpacked images: ${formatBytes(unpacked)}.`);
  if (result.blobsLeased > 0) {
    const stay = result.blobsLeased === 1 ? "stays" : "stay";
    lines.push(`${count(result.blobsLeased, "blob")} ${stay} for pushes that may be under way.`);
  }
  return lines.join("\n") + "\n";
}

export async function run(invocation: Invocation<typeof GC_OPTIONS>): Promise<number> {
  const { io, values } = invocation;
  const { dryRun = false, idle } = values;
  const live = values.output === "fancy" || values.output === "auto" && !!io.stderr.size();
  let shown = false;
  const result = await collectGarbage(
    await connect(invocation),
    { dryRun, idle },
    async (progress) => {
      if (!live) return;
      shown = true;
      await io.stderr.write(
        asIs(
          `\r\x1b[K${
            harmless(progress.phase)
          }: ${progress.blobs} blobs, ${progress.blobsDeleted} deleted`,
        ),
      );
    },
  );
  if (shown) await io.stderr.write(asIs("\r\x1b[K"));
  await io.stdout.write(
    values.output === "json" ? JSON.stringify(result) + "\n" : gcText(result, dryRun),
  );
  return 0;
}
