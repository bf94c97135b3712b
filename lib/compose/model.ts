/**
 * Loads Compose files into one tree: reads, interpolates, extends, includes and merges them, checks the result
 * against its shape, and writes short forms out.
 */
import { applyExtends } from "./extends.ts";
import { applyInclude } from "./include.ts";
import { setDefaults, writeOut } from "./long_forms.ts";
import { dropCleared, dropRedefined, mergeTree } from "./merge.ts";
import { resolveVariables } from "./normalise.ts";
import { resolvePaths } from "./paths.ts";
import { withPlaces } from "./problem.ts";
import { checkRules } from "./rules.ts";
import { interpolateTree } from "./scalars.ts";
import { FILE } from "./shape/resources.ts";
import type { Reading, Session, Unit } from "./unit.ts";
import { validateTree } from "./validate.ts";
import { type Document, invalid, readYaml } from "./yaml/read.ts";
import { clone, isList, isMapping, type Mapping } from "./yaml/tree.ts";

/** The documents of a file; each call gives trees of its own. */
async function documentsOf(file: string, session: Session, named: boolean): Promise<Document[]> {
  let documents = session.documents.get(file);
  if (documents) session.files.count(file);
  else {
    documents = await readYaml(await session.files.text(file, { named }), file);
    session.documents.set(file, documents);
  }
  return documents.map((document) => ({ ...document, root: clone(document.root) }));
}

/** Empty entries of `dns` count as not written. */
function dropEmptyDns(root: Mapping): void {
  const services = root.get("services");
  if (!isMapping(services)) return;
  for (const service of services.values()) {
    const dns = isMapping(service) ? service.get("dns") : undefined;
    if (isMapping(service) && isList(dns)) {
      service.set("dns", dns.filter((item) => item !== "" && item !== null));
    }
  }
}

/** Merges one file into `root`, which may be changed; the merged tree. */
export async function mergeFile(
  file: string,
  root: Mapping,
  unit: Unit,
  session: Session,
  reading: Reading,
): Promise<{ root: Mapping; cleared: string[][] }> {
  const cleared: string[][] = [];
  for (const document of await documentsOf(file, session, reading.included.length === 0)) {
    if (document.root === null) continue;
    if (!isMapping(document.root)) {
      throw invalid(document.place, "expected a mapping at the top level");
    }
    const own = document.root;
    cleared.push(...document.cleared);
    if (session.interpolate) {
      withPlaces(own, file, () => interpolateTree(own, FILE, unit.interpolator));
    }
    if (reading.whole) {
      await applyExtends(own, document.cleared, { file, unit, session, mergeFile });
      dropCleared(root, document.cleared);
      const included = [...reading.included, file];
      await applyInclude(own, { file, unit, session, included, loadUnit });
    } else dropCleared(root, document.cleared);
    root = completed(own, root, file, session, reading);
  }
  return { root, cleared };
}

/** The steps after a document stands by itself: merged, checked, written out. */
function completed(
  own: Mapping,
  root: Mapping,
  file: string,
  session: Session,
  { whole }: Reading,
): Mapping {
  const merged = withPlaces(own, file, () => mergeTree(root, own, FILE)) as Mapping;
  return withPlaces(merged, file, () => {
    dropRedefined(merged, FILE);
    if (whole) {
      validateTree(merged, FILE);
      if (merged.delete("version")) {
        session.warn(
          `${file}: the attribute \`version\` is obsolete, it will be ignored, please remove it to avoid ` +
            "potential confusion",
        );
      }
    }
    writeOut(merged, FILE, { lenient: !session.interpolate, warn: session.warn });
    dropEmptyDns(merged);
    // A range of ports, written out, may redefine another port.
    dropRedefined(merged, FILE);
    return merged;
  });
}

/** The tree of a unit's files. Throws `compose_invalid` with file, line and path. */
export async function loadUnit(
  unit: Unit,
  session: Session,
  included: readonly string[],
  resolve: boolean,
): Promise<Mapping> {
  let root: Mapping = new Map();
  for (const file of unit.files) {
    ({ root } = await mergeFile(file, root, unit, session, { included, whole: true }));
  }
  withPlaces(root, unit.files[0], () => {
    setDefaults(root);
    checkRules(root);
    if (resolve) resolvePaths(root, FILE, { directory: unit.directory, home: session.home });
  });
  resolveVariables(root, (name) => unit.environment.get(name));
  return root;
}
