/**
 * The profile file. A change edits the YAML document, so that comments and order stay, and replaces the file in
 * one step. Mode 0600 in a 0700 folder.
 */
import { basename, dirname } from "../../base/path.ts";
import { SvcError, systemCode } from "../../base/errors.ts";
import { ensureDir, writeFileAtomic } from "../../base/fs.ts";
import type { Document } from "yaml";
import type { Profile } from "./types.ts";
import { checkProfile } from "./validate.ts";

async function readText(path: string): Promise<string | undefined> {
  try {
    return await Deno.readTextFile(path);
  } catch (cause) {
    const code = systemCode(cause);
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    const why = code === "EACCES"
      ? "permission denied"
      : code === "EISDIR"
      ? "it is a folder"
      : (cause as Error).message;
    throw new SvcError("config_invalid", `Cannot read ${path}: ${why}`, {
      cause,
      help: "check the file, or name another one in SVC_CONFIG or --config-file",
    });
  }
}

/** Throws `config_invalid` with the line number; the line's text may be a token and is not shown. */
async function parse(text: string, source: string): Promise<Document> {
  const { LineCounter, parseDocument } = await import("../yaml.ts");
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false });
  const [error] = document.errors;
  if (error) {
    const { line, col } = counter.linePos(error.pos[0]);
    throw new SvcError(
      "config_invalid",
      `Cannot read ${source}: line ${line}, column ${col}: ${error.message}`,
      { help: "correct the YAML" },
    );
  }
  return document as unknown as Document;
}

function toProfile(document: Document, source: string, verb?: "read" | "write"): Profile {
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 });
  } catch (cause) {
    throw new SvcError("config_invalid", `Cannot read ${source}: an alias cannot be followed`, {
      cause,
      help: "correct the YAML",
    });
  }
  return checkProfile(value, source, verb);
}

/** Parses and checks the text of a profile. */
export async function parseProfile(text: string, source: string): Promise<Profile> {
  return toProfile(await parse(text, source), source);
}

/**
 * A missing file is an empty profile. Throws `config_invalid`, also for a file that other users could write.
 */
export async function readProfile(path: string | undefined): Promise<Profile> {
  const text = path === undefined ? undefined : await readText(path);
  if (text === undefined) return { contexts: {} };
  await refuseForeign(path!);
  return await parseProfile(text, path!);
}

/** A profile names programs to run and servers to trust: whoever can write it decides where credentials go. */
async function refuseForeign(path: string): Promise<void> {
  if (Deno.build.os === "windows") return;
  const [file, folder] = await Promise.all([Deno.stat(path), Deno.stat(dirname(path))]);
  // A device or a pipe was named on purpose.
  if (!file.isFile) return;
  const open = (info: Deno.FileInfo) => (info.mode! & 0o002) !== 0;
  const why = open(file)
    ? "everybody can write to it"
    : open(folder) && (folder.mode! & 0o1000) === 0
    ? "everybody can write to its folder"
    // root with another user's HOME (sudo) acts for that user.
    : file.uid !== Deno.uid() && file.uid !== 0 && Deno.uid() !== 0
    ? "it belongs to another user"
    : undefined;
  if (!why) return;
  throw new SvcError("config_invalid", `Cannot use ${path}: ${why}`, {
    help: `look at what it says, then: chmod go-w ${dirname(path)} ${path}`,
  });
}

/** True for a file with tokens that other users may read. */
export async function showsTokens(path: string, profile: Profile): Promise<boolean> {
  if (Deno.build.os === "windows") return false;
  if (Object.values(profile.contexts).every(({ token }) => token === undefined)) return false;
  const { mode, isFile } = await Deno.stat(path);
  return isFile && (mode! & 0o077) !== 0;
}

/** Creates the folder with mode 0700. An existing folder is made private if it is svc's own. */
async function ensurePrivateFolder(folder: string): Promise<void> {
  await ensureDir(folder, 0o700);
  if (Deno.build.os === "windows" || basename(folder) !== "svc") return;
  const { mode, uid } = await Deno.stat(folder);
  if (uid === Deno.uid() && (mode! & 0o077) !== 0) await Deno.chmod(folder, 0o700);
}

/**
 * Changes the file: `change` edits the document, and the result is checked before it is written. A lock makes
 * two svc that edit at once take turns.
 */
export async function editProfile(
  path: string,
  change: (document: Document, profile: Profile) => void | Promise<void>,
): Promise<Profile> {
  await ensurePrivateFolder(dirname(path));
  using lock = await Deno.open(`${path}.lock`, { write: true, create: true, mode: 0o600 });
  await lock.lock(true);
  // Where the path is a link, the file that it leads to is replaced.
  const target = await Deno.realPath(path).catch(() => path);
  const document = await parse(await readText(target) ?? "", path);
  await change(document, toProfile(document, path));
  const profile = toProfile(document, path, "write");
  await writeFileAtomic(target, document.toString({ lineWidth: 0 }), { mode: 0o600 });
  return profile;
}
