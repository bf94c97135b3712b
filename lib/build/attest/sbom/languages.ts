/** npm and Python packages, from the record that each installed package has. */
import { paragraphs } from "./dpkg.ts";
import { type FoundPackage, purl, type Scanner } from "./package.ts";

/** `node_modules/NAME/package.json` and `node_modules/@SCOPE/NAME/package.json`. */
const NODE = /\/node_modules\/(?:@[^/]+\/)?[^/]+\/package\.json$/;
const PYTHON = /\.dist-info\/METADATA$|\.egg-info\/PKG-INFO$/;

function node(source: string, text: string): FoundPackage | undefined {
  let manifest: { name?: unknown; version?: unknown; license?: unknown };
  try {
    manifest = JSON.parse(text) ?? {};
  } catch {
    return undefined; // not a package's manifest: such files occur in packages' tests
  }
  const { name, version, license } = manifest;
  if (typeof name !== "string" || typeof version !== "string" || !name || !version) {
    return undefined;
  }
  const slash = name.startsWith("@") ? name.indexOf("/") : -1;
  const namespace = slash > 0 ? name.slice(0, slash) : undefined;
  return {
    name,
    version,
    purl: purl("npm", namespace, name.slice(slash + 1), version),
    source,
    ...(typeof license === "string" && { license }),
  };
}

/** Normalises a Python package's name for comparison (PEP 503). */
const normalized = (name: string) => name.replace(/[-_.]+/g, "-").toLowerCase();

function python(source: string, text: string): FoundPackage | undefined {
  const [fields] = paragraphs(text);
  const [name, version, license] = ["name", "version", "license"].map((key) => fields?.get(key));
  if (!name || !version) return undefined;
  return {
    name,
    version,
    purl: purl("pypi", undefined, normalized(name), version),
    source,
    ...(license && { license }),
  };
}

export const scanLanguages: Scanner = async (tree, signal) => {
  const paths = await tree.find(
    (path, name) => name === "package.json" ? NODE.test(path) : PYTHON.test(path),
    signal,
  );
  const found: FoundPackage[] = [];
  for (const path of paths) {
    signal.throwIfAborted();
    const text = await tree.read(path);
    const one = text && (PYTHON.test(path) ? python(path, text) : node(path, text));
    if (one) found.push(one);
  }
  return found;
};
