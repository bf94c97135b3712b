/** Errors of a project that name where in its files the trouble is. */
import { SvcError } from "../base/errors.ts";
import type { LoadedProject } from "./project.ts";

export type Path = readonly (string | number)[];

/** "services.web.ports[0]". */
export function pathText(path: Path): string {
  return path.map((part, index) =>
    typeof part === "number" ? `[${part}]` : index === 0 ? part : `.${part}`
  ).join("");
}

/** "compose.yaml:12: services.web.uts". */
export function placeOf(loaded: LoadedProject, path: Path): string {
  const at = loaded.place(...path.map(String));
  return at === undefined ? pathText(path) : `${at.file}:${at.line}: ${pathText(path)}`;
}

/** The error for something that svc does not do. */
export function refusal(
  loaded: LoadedProject,
  path: Path,
  why: string,
  help?: string,
): SvcError {
  return new SvcError("unsupported", `Cannot use ${placeOf(loaded, path)}: ${why}`, {
    help: help ?? "leave it out",
  });
}
