/** `include`: the resources of other Compose files, each loaded by itself, with its own directory and .env. */
import { dirname, isAbsolute, join, relative } from "node:path";
import { envOfFiles } from "./environment.ts";
import { isFile } from "./files.ts";
import { placed, Problem, withPlaces } from "./problem.ts";
import { refuseRemote } from "./remote.ts";
import type { LoadUnit, Session, Unit } from "./unit.ts";
import {
  isList,
  isMapping,
  type Mapping,
  placeIn,
  same,
  setPlace,
  type Value,
} from "./yaml/tree.ts";

const KINDS = ["services", "volumes", "networks", "secrets", "configs", "models"];
const MOST_STEPS = 50;

interface Include {
  paths: string[];
  directory?: string;
  envFiles: string[];
}

function texts(value: Value | undefined, path: string[]): string[] {
  if (value === undefined || value === null) return [];
  const list = isList(value) ? value : [value];
  for (const item of list) if (typeof item !== "string") throw new Problem(path, "expected text");
  return list as string[];
}

function includes(value: Value): Include[] {
  if (!isList(value)) throw new Problem(["include"], "expected a list");
  return value.map((item, index): Include => {
    const path = ["include", String(index)];
    if (typeof item === "string") return { paths: [item], envFiles: [] };
    if (!isMapping(item)) throw new Problem(path, "expected a path or a mapping");
    const [directory] = texts(item.get("project_directory"), [...path, "project_directory"]);
    return {
      paths: texts(item.get("path"), [...path, "path"]),
      envFiles: texts(item.get("env_file"), [...path, "env_file"]),
      ...(directory && { directory }),
    };
  });
}

/** Adds the imported resources; one that is there already has to be the same. */
function importResources(imported: Mapping, root: Mapping, path: string[]): void {
  for (const kind of KINDS) {
    const from = imported.get(kind);
    if (!isMapping(from)) continue;
    const own = root.get(kind);
    const to: Mapping = isMapping(own) ? own : new Map();
    for (const [name, value] of from) {
      const present = to.get(name);
      if (present !== undefined && !same(present, value)) {
        throw new Problem(path, `${kind}.${name} is in this file too, and says something else`);
      }
      if (present !== undefined) continue;
      to.set(name, value);
      setPlace(to, name, placeIn(from, name));
    }
    root.set(kind, to);
  }
}

/** Where the included files stand: their directory as docker compose writes it, and absolute. */
function directories(include: Include, files: string[], unit: Unit) {
  const { directory } = include;
  if (directory && isAbsolute(directory)) return { folder: directory, directory };
  const folder = directory === undefined ? dirname(files[0]) : join(unit.folder, directory);
  return { folder, directory: relative(unit.folder, folder) || "." };
}

/** The file that includes others. */
interface Including {
  file: string;
  unit: Unit;
  session: Session;
  /** The files that include it, outermost first, and it. */
  included: readonly string[];
  loadUnit: LoadUnit;
}

async function load(
  include: Include,
  { unit, session, included, loadUnit }: Including,
  path: string[],
): Promise<Mapping> {
  for (const file of include.paths) refuseRemote(file, path);
  const files = include.paths.map((file) => isAbsolute(file) ? file : join(unit.folder, file));
  if (files.length === 0) throw new Problem(path, "path is missing");
  const again = files.find((file) => included.includes(file));
  if (again !== undefined || included.length > MOST_STEPS) {
    const steps = [...included, again ?? "…"].join(", which includes ");
    throw new Problem(path, `files include each other in a circle: ${steps}`);
  }
  const { folder, directory } = directories(include, files, unit);
  const envFiles = include.envFiles.map((file) =>
    isAbsolute(file) ? file : join(unit.folder, file)
  );
  const usual = join(folder, ".env");
  if (envFiles.length === 0 && await isFile(usual)) envFiles.push(usual);
  const environment = new Map(unit.environment);
  const more = await envOfFiles(envFiles, unit.environment, session.files, session.warn);
  for (const [name, value] of more) if (!environment.has(name)) environment.set(name, value);
  const interpolator = unit.interpolator.with((name) => environment.get(name));
  return await loadUnit(
    { files, directory, folder, environment, interpolator },
    session,
    included,
    true,
  );
}

/** Works on the tree itself. */
export async function applyInclude(root: Mapping, including: Including): Promise<void> {
  const { file } = including;
  const value = root.get("include");
  if (value === undefined || value === null) return;
  const list = withPlaces(root, file, () => includes(value));
  for (const [index, include] of list.entries()) {
    const path = ["include", String(index)];
    try {
      const imported = await load(include, including, path);
      importResources(imported, root, path);
    } catch (error) {
      throw placed(error, root, file);
    }
  }
  root.delete("include");
}
