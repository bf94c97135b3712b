/** `svc storage usage` and `svc storage verify`. */
import { asIs } from "../base/terminal.ts";
import type { BuildCacheUsage, ScrubStatus, StorageUsage, VerifyEvent } from "../api/storage.ts";
import { formatBytes } from "../base/bytes.ts";
import { formatDuration } from "../base/duration.ts";
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import { renderTable } from "../base/table.ts";
import { storageUsage, verifyStorage } from "../client/storage.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import type { STORAGE_OPTIONS } from "./storage_options.ts";

type Call = Invocation<typeof STORAGE_OPTIONS>;

/** Names of the kinds for a person, in the order in which they are shown. */
const KINDS: Record<string, string> = {
  snapshots: "snapshots",
  cacheMounts: "cache mounts",
  contexts: "contexts",
  copiedFolders: "copied folders",
  links: "links",
  archives: "archives that wait",
};

function cacheRows({ bytes, kinds, keepBytes }: BuildCacheUsage): string[][] {
  const known = Object.entries(kinds).sort(([a], [b]) => {
    const order = Object.keys(KINDS);
    return order.indexOf(a) - order.indexOf(b);
  });
  const limit = keepBytes === undefined ? "" : ` of ${formatBytes(keepBytes)}`;
  return [
    ...known.map(([kind, { count, bytes }]) => [
      `build cache: ${KINDS[kind] ?? kind}`,
      String(count),
      formatBytes(bytes),
    ]),
    ["build cache", "", `${formatBytes(bytes)}${limit}`],
  ];
}

function scrubText(scrub: ScrubStatus): string {
  const { began, finished, blobs, bytes, totalBytes, withinMs, damaged } = scrub;
  const within = formatDuration(withinMs);
  const far = finished
    ? `All ${blobs} blobs (${formatBytes(bytes)}) were read again until ${finished}`
    : `${blobs} blobs (${formatBytes(bytes)} of ${formatBytes(totalBytes)}) were read again ` +
      `since ${began}`;
  const lines = damaged.map(({ key, message, movedTo, refetched, found }) =>
    `damaged: ${key}: ${message} (${found})\n` +
    (movedTo ? `  moved to ${movedTo}\n` : "") +
    (refetched ? "  fetched again from upstream\n" : "  push it again\n")
  );
  return `\n${far}; each within ${within}.\n${lines.join("")}`;
}

function usageText({ content, buildCache, scrub }: StorageUsage): string {
  const row = (what: string, number: number, bytes?: number) => [
    what,
    String(number),
    bytes === undefined ? "" : formatBytes(bytes),
  ];
  return renderTable(["CONTENT", "NUMBER", "SIZE"], [
    row("repositories", content.repositories),
    row("manifests", content.manifests),
    row("tags", content.tags),
    row("blobs", content.blobs, content.blobBytes),
    ...content.copies > 0 ? [row("copies", content.copies, content.copyBytes)] : [],
    row("uploads", content.uploads, content.uploadBytes),
    row("quarantined", content.quarantined, content.quarantinedBytes),
    ...buildCache ? cacheRows(buildCache) : [],
  ]) + (scrub ? scrubText(scrub) : "");
}

async function usage(invocation: Call): Promise<number> {
  const { io, values } = invocation;
  const found = await storageUsage(await connect(invocation));
  await io.stdout.write(values.output === "json" ? JSON.stringify(found) + "\n" : usageText(found));
  return 0;
}

function verifyText(event: Exclude<VerifyEvent, { type: "error" }>): string {
  if (event.type === "progress") return "";
  if (event.type !== "result") {
    const { type, kind, key, message, movedTo } = event;
    return `${type === "warning" ? "warning: " : ""}${kind} ${key}: ${message}\n${
      movedTo ? `  moved to ${movedTo}\n` : ""
    }`;
  }
  const { blobs, bytes, manifests, tags, problems, warnings, durationMs } = event.result;
  return `Checked ${blobs} blobs (${formatBytes(bytes)}), ${manifests} manifests and ${tags} ` +
    `tags in ${formatDuration(durationMs)}: ${
      problems === 0
        ? "nothing wrong"
        : problems === 1
        ? "1 thing is wrong"
        : `${problems} things are wrong`
    }${warnings > 0 ? `, ${warnings} to look at` : ""}.\n`;
}

/** Resolves to 1 where a problem was found. */
async function verify(invocation: Call): Promise<number> {
  const { io, values } = invocation;
  const live = values.output === "fancy" || values.output === "auto" && !!io.stderr.size();
  let problems = 0;
  for await (const event of verifyStorage(await connect(invocation), values)) {
    if (event.type === "result") problems = event.result.problems;
    if (live) {
      await io.stderr.write(asIs(
        event.type === "progress"
          ? `\r\x1b[K${event.blobs} blobs, ${formatBytes(event.bytes)}`
          : "\r\x1b[K",
      ));
    }
    await io.stdout.write(
      values.output === "json" ? JSON.stringify(event) + "\n" : verifyText(event),
    );
  }
  return problems === 0 ? 0 : 1;
}

export async function run(invocation: Call): Promise<number> {
  const [subject] = invocation.positionals;
  if (subject === "verify") return await verify(invocation);
  if (invocation.values.quarantine) {
    throw new SvcError("usage", "Cannot run storage: --quarantine belongs to verify");
  }
  if (subject === "usage") return await usage(invocation);
  throw new SvcError(
    "usage",
    `Cannot run storage: ${JSON.stringify(subject)} is neither usage nor verify${
      suggestion(subject, ["usage", "verify"])
    }`,
    { help: "usage: svc storage usage | svc storage verify [--quarantine]" },
  );
}
