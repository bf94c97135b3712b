/** `extends`: a service begins with what another one says, in this file or in another. */
import { dirname, isAbsolute, join, relative } from "node:path";
import { dropCleared, mergeTree } from "./merge.ts";
import { resolvePaths } from "./paths.ts";
import { placed, Problem, withPlaces } from "./problem.ts";
import { refuseRemote } from "./remote.ts";
import { FILE } from "./shape/resources.ts";
import { SERVICE } from "./shape/service.ts";
import type { Base, MergeFile, Session, Unit } from "./unit.ts";
import { clone, isMapping, type Mapping, type Value } from "./yaml/tree.ts";

const MOST_STEPS = 100;

/** Services that extend each other, from the first one on. */
type Chain = readonly { file: string; service: string }[];

/** The file that a service stands in. */
interface Extending {
  file: string;
  unit: Unit;
  session: Session;
  mergeFile: MergeFile;
}

interface Here extends Extending {
  services: Mapping;
}

function link(chain: Chain, file: string, service: string, path: string[]): Chain {
  const next = [...chain, { file, service }];
  if (next.length > MOST_STEPS) {
    throw new Problem(path, `more than ${MOST_STEPS} services extend each other`);
  }
  if (!chain.some((step) => step.file === file && step.service === service)) return next;
  const steps = next.map((step) => `${step.service} in ${step.file}`).join(", which extends ");
  throw new Problem(path, `services extend each other in a circle: ${steps}`);
}

/** The services of another file, each with paths that begin where those of this file do. */
async function baseOf(file: string, { unit, session, mergeFile }: Here): Promise<Base> {
  const local = isAbsolute(file) ? file : join(unit.folder, file);
  const folder = dirname(local);
  // Relative as docker compose has it: --no-path-resolution shows it.
  const directory = relative(unit.folder, folder) || ".";
  const key = `${local}\0${directory}`;
  let base = session.bases.get(key);
  if (!base) {
    const load = async (): Promise<Base> => {
      const own: Unit = { ...unit, files: [local], folder, directory };
      const { root, cleared } = await mergeFile(local, new Map(), own, session, {
        included: [local],
        whole: false,
      });
      withPlaces(root, local, () => resolvePaths(root, FILE, { directory, home: session.home }));
      return { root, cleared };
    };
    session.bases.set(key, base = load());
  }
  return await base;
}

/** What a service names: a service, and the file where that stands. */
function target(extend: Value, path: string[]): { service: string; file?: string } {
  if (typeof extend === "string") return { service: extend };
  const service = isMapping(extend) ? extend.get("service") : undefined;
  const file = isMapping(extend) ? extend.get("file") ?? undefined : undefined;
  if (typeof service !== "string") throw new Problem(path, "service is missing");
  if (file === undefined) return { service };
  if (typeof file !== "string") throw new Problem([...path, "file"], "expected the path of a file");
  refuseRemote(file, [...path, "file"]);
  return { service, file };
}

async function extended(
  name: string,
  here: Here,
  chain: Chain,
  cleared: readonly string[][],
): Promise<Value> {
  const service = here.services.get(name) ?? null;
  if (service === null) return null;
  const path = ["services", name];
  if (!isMapping(service)) throw new Problem(path, "expected a mapping");
  const extend = service.get("extends");
  if (extend === undefined) return service;
  const { service: wanted, file } = target(extend, [...path, "extends"]);
  let there = here;
  let baseCleared: string[][] = [];
  if (file !== undefined) {
    const base = await baseOf(file, here);
    const services = base.root.get("services");
    if (!isMapping(services)) throw new Problem([...path, "extends"], `${file} has no services`);
    there = { ...here, services, file };
    baseCleared = base.cleared;
  }
  if (!there.services.has(wanted)) {
    const where = file === undefined ? "" : ` in ${file}`;
    throw new Problem([...path, "extends"], `there is no service ${wanted}${where}`);
  }
  const steps = link(chain, there.file, name, [...path, "extends"]);
  const base = await extended(wanted, there, steps, baseCleared);
  if (base === null) return service;
  const source = clone(base);
  dropCleared(new Map([["services", new Map([[name, source]])]]), cleared);
  const merged = mergeTree(source, service, SERVICE, path) as Mapping;
  merged.delete("extends");
  here.services.set(name, merged);
  return merged;
}

/** Works on the tree itself. */
export async function applyExtends(
  root: Mapping,
  cleared: readonly string[][],
  extending: Extending,
): Promise<void> {
  const services = root.get("services");
  if (services === undefined || services === null) return;
  try {
    if (!isMapping(services)) throw new Problem(["services"], "expected a mapping");
    const here = { ...extending, services };
    for (const name of services.keys()) await extended(name, here, [], cleared);
  } catch (error) {
    throw placed(error, root, extending.file);
  }
}
