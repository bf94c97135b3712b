/**
 * File names as in node:path, without node:path: loading one of node's modules takes a third of the time that
 * a process takes to start. For Windows, whose rules differ, node's module is used.
 */
import type NodePath from "node:path";

const segments = (path: string) => path.split("/").filter((part) => part !== "");

function normalized(path: string): string {
  if (path === "") return ".";
  const absolute = path.startsWith("/");
  const kept: string[] = [];
  for (const part of segments(path)) {
    if (part === ".") continue;
    if (part !== "..") kept.push(part);
    else if (kept.length > 0 && kept.at(-1) !== "..") kept.pop();
    else if (!absolute) kept.push("..");
  }
  const clean = kept.join("/");
  if (clean === "" && absolute) return "/";
  return (absolute ? "/" : "") + (clean || ".") + (path.endsWith("/") ? "/" : "");
}

function joinPosix(...parts: string[]): string {
  return normalized(parts.filter((part) => part !== "").join("/"));
}

const absolutePosix = (path: string) => path.startsWith("/");

function resolvePosix(...parts: string[]): string {
  const from = parts.findLastIndex(absolutePosix);
  const whole = from < 0 ? [Deno.cwd(), ...parts] : parts.slice(from);
  const path = joinPosix(...whole);
  return path === "/" ? path : path.replace(/\/$/, "");
}

function dirnamePosix(path: string): string {
  // The name and the slashes behind it; one before it.
  const cut = path.replace(/\/*$/, "").lastIndexOf("/");
  if (cut > 0) return cut === 1 && path.startsWith("//") ? "//" : path.slice(0, cut);
  if (cut < 0 && !absolutePosix(path)) return ".";
  return "/";
}

const basenamePosix = (path: string) => segments(path).at(-1) ?? "";

function relativePosix(from: string, to: string): string {
  const here = segments(resolvePosix(from));
  const there = segments(resolvePosix(to));
  let shared = 0;
  while (shared < here.length && here[shared] === there[shared]) shared++;
  return [...here.slice(shared).map(() => ".."), ...there.slice(shared)].join("/");
}

/** The functions of node:path that svc uses. */
export interface PathRules extends
  Pick<
    typeof NodePath,
    "normalize" | "join" | "isAbsolute" | "resolve" | "dirname" | "relative" | "sep"
  > {
  basename(path: string): string;
}

export const posix: PathRules = {
  normalize: normalized,
  join: joinPosix,
  isAbsolute: absolutePosix,
  resolve: resolvePosix,
  dirname: dirnamePosix,
  basename: basenamePosix,
  relative: relativePosix,
  sep: "/",
};

/** The rules of Windows, on any system. */
export const windows = (): PathRules => process.getBuiltinModule("node:path").win32;

const own = Deno.build.os === "windows" ? windows() : posix;

/** The rules of this system. */
export const native: PathRules = own;

export const { basename, dirname, isAbsolute, join, relative, resolve, sep } = own;
