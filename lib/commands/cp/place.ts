/** The places that `svc cp` copies between, and what a copy comes to: the rules are docker's. */
import { SvcError } from "../../base/errors.ts";
import { type PathRules, posix } from "../../base/path.ts";
import type { RemotePath } from "../../client/files.ts";

export type Place =
  /** A tar archive on standard input or output. */
  | { kind: "pipe" }
  | { kind: "local"; path: string }
  | { kind: "remote"; at: RemotePath };

/**
 * Reads "-", a path of this machine, or NAME:PATH or NAME/INSTANCE:PATH. A path of this machine with a colon
 * begins with / or with a dot.
 */
export function parsePlace(text: string, os: typeof Deno.build.os = Deno.build.os): Place {
  if (text === "-") return { kind: "pipe" };
  const drive = os === "windows" && /^[A-Za-z]:[\\/]/.test(text);
  const colon = text.indexOf(":");
  if (/^[./]/.test(text) || drive || colon < 1) return { kind: "local", path: text };
  const [name, instance, ...more] = text.slice(0, colon).split("/");
  const path = text.slice(colon + 1);
  if (path === "" || name === "" || instance === "" || more.length > 0) {
    throw new SvcError(
      "usage",
      `Cannot copy ${JSON.stringify(text)}: expected NAME:PATH or NAME/INSTANCE:PATH`,
      { help: "write a path of this machine with ./ before it" },
    );
  }
  const absolute = path.startsWith("/") ? path : `/${path}`;
  return { kind: "remote", at: { name, path: absolute, ...(instance && { instance }) } };
}

export interface Source {
  isFolder: boolean;
  /** The last part of its path. */
  name: string;
  /** Its path ends with "/.": only what the folder holds is copied. */
  contents: boolean;
}

export interface Target {
  path: string;
  is: "folder" | "file" | "none";
}

export interface Landing {
  /** Folder that the archive is unpacked into; it is there. */
  folder: string;
  /** Name that the source gets in it. Absent: what the source holds goes into the folder itself. */
  name?: string;
}

const endsAsFolder = (path: string) => /[\\/]\.?$/.test(path);

/** True for a path that ends with "/.", or is the root. */
export const namesContents = (path: string) => /(^|[\\/])\.$/.test(path) || path === "/";

/** Where a copy lands. `rules`: those of the target's paths. Throws `argument_invalid`. */
export function landing(source: Source, target: Target, rules: PathRules = posix): Landing {
  const refuse = (why: string) =>
    new SvcError("argument_invalid", `Cannot copy ${source.name} to ${target.path}: ${why}`);
  const beside = () => ({
    folder: rules.dirname(rules.normalize(target.path)),
    name: rules.basename(rules.normalize(target.path)),
  });
  if (target.is === "folder") {
    return source.contents
      ? { folder: target.path }
      : { folder: target.path, name: source.name || undefined };
  }
  if (target.is === "file") {
    if (source.isFolder) throw refuse("a folder cannot replace a file");
    if (endsAsFolder(target.path)) throw refuse("it is no folder");
    return beside();
  }
  if (!source.isFolder && endsAsFolder(target.path)) throw refuse("there is no such folder");
  return beside();
}
