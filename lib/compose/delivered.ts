/** The configs and secrets of a service, as files that are sent with its deployment. */
import { Buffer } from "node:buffer";
import { type DeliveredFile, MAX_FILE_BYTES } from "../api/delivered_files.ts";
import { SvcError } from "../base/errors.ts";
import type { FileObject } from "./project.ts";
import { placeOf } from "./refusal.ts";
import type { FileReference } from "./service.ts";
import { at, refuse, type Subject } from "./subject.ts";

type Kind = "configs" | "secrets";

/** Permissions of files that say nothing of theirs: everybody in the container may read them. */
const READABLE = 0o444;

interface Content {
  bytes: Uint8Array;
  /** What the source's own permissions add: a script stays one that can be run. */
  mode: number;
}

const cannotRead = (of: Subject, kind: Kind, key: string, why: string, help: string) =>
  new SvcError("not_found", `Cannot use ${placeOf(of.loaded, [kind, key])}: ${why}`, { help });

async function readSource(of: Subject, kind: Kind, key: string, file: string): Promise<Content> {
  let info: Deno.FileInfo;
  try {
    info = await Deno.stat(file);
  } catch (error) {
    const why = `${file} cannot be read: ${(error as Error).message}`;
    throw cannotRead(of, kind, key, why, "name a file that there is");
  }
  if (!info.isFile) throw cannotRead(of, kind, key, `${file} is no file`, "name a single file");
  checkSize(of, kind, key, info.size);
  return { bytes: await Deno.readFile(file), mode: (info.mode ?? 0) & 0o111 };
}

/** Told here, where the file is known, and before anything is sent. */
function checkSize(of: Subject, kind: Kind, key: string, size: number): void {
  if (size <= MAX_FILE_BYTES) return;
  throw new SvcError(
    "too_large",
    `Cannot use ${
      placeOf(of.loaded, [kind, key])
    }: it has ${size} bytes, and ${MAX_FILE_BYTES} are allowed`,
    { help: "use a volume, or COPY in the image" },
  );
}

async function contentOf(
  of: Subject,
  kind: Kind,
  key: string,
  { file, environment, content, external }: FileObject,
): Promise<Content> {
  if (external) {
    throw refuse(of, [kind], `${key} is external, and svc keeps no ${kind}`, "write its file");
  }
  if (file !== undefined) return await readSource(of, kind, key, file);
  const text = environment === undefined ? content : of.loaded.environment[environment];
  if (text === undefined) {
    const why = environment === undefined
      ? "it has neither a file, nor a variable, nor content"
      : `the variable ${environment} is not set`;
    throw cannotRead(of, kind, key, why, "give it a value");
  }
  const bytes = new TextEncoder().encode(text);
  checkSize(of, kind, key, bytes.length);
  return { bytes, mode: 0 };
}

/** "0440" in octal, as the file has it. */
function modeOf(of: Subject, path: readonly (string | number)[], text: string | undefined) {
  if (text === undefined) return undefined;
  const mode = /^(0o?)?[0-7]+$/.test(text) ? parseInt(text.replace(/^0o/, ""), 8) : NaN;
  if (mode >= 0 && mode <= 0o777) return mode;
  throw refuse(of, path, `${text} is no permissions up to 0777`, "write them as 0440");
}

function numberOf(of: Subject, path: readonly (string | number)[], text: string | undefined) {
  if (text === undefined || /^\d+$/.test(text)) return Number(text ?? 0);
  throw refuse(of, path, `${text} is no number`, "write the number of the user or group");
}

async function fileOf(
  of: Subject,
  kind: Kind,
  index: number,
  { source = "", target, uid, gid, mode }: FileReference,
): Promise<DeliveredFile> {
  const { bytes, mode: own } = await contentOf(of, kind, source, of.loaded.project[kind][source]);
  const folder = kind === "secrets" ? "/run/secrets" : "";
  const place = target ?? source;
  return {
    target: place.startsWith("/") ? place : `${folder}/${place}`,
    content: Buffer.from(bytes).toString("base64"),
    mode: modeOf(of, [kind, index, "mode"], mode) ?? (READABLE | own),
    uid: numberOf(of, [kind, index, "uid"], uid),
    gid: numberOf(of, [kind, index, "gid"], gid),
    secret: kind === "secrets",
  };
}

/** Reads them. Throws, naming the place, for one that there is not. No error has anything of a content. */
export async function deliveredFiles(of: Subject): Promise<DeliveredFile[]> {
  const files: DeliveredFile[] = [];
  for (const kind of ["configs", "secrets"] as const) {
    for (const [index, reference] of (of.service[kind] ?? []).entries()) {
      const file = await fileOf(of, kind, index, reference);
      const twice = files.some(({ target }) => target === file.target);
      if (twice) {
        throw new SvcError(
          "spec_invalid",
          `Cannot use ${
            placeOf(of.loaded, at(of, kind, index))
          }: there is another file at ${file.target}`,
          { help: "give it another target" },
        );
      }
      files.push(file);
    }
  }
  return files;
}
