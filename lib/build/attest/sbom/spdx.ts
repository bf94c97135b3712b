/** Packages as an SPDX 2.3 document (JSON). */
import { createHash } from "node:crypto";
import { scanApk } from "./apk.ts";
import { scanDpkg } from "./dpkg.ts";
import { scanLanguages } from "./languages.ts";
import type { FoundPackage, Scanner } from "./package.ts";
import type { Tree } from "./tree.ts";

/** The kinds of packages that are looked for; the document lists no others. */
const COVERAGE =
  "Packages of dpkg and apk, npm packages in node_modules, and Python distributions with metadata. " +
  "Not covered: rpm, and programs that were copied in or linked from their modules.";

const SCANNERS: readonly Scanner[] = [scanDpkg, scanApk, scanLanguages];

/** All packages that the scanners find, sorted and without duplicates. */
export async function scan(tree: Tree, signal: AbortSignal): Promise<FoundPackage[]> {
  const found = new Map<string, FoundPackage>();
  for (const scanner of SCANNERS) {
    for (const one of await scanner(tree, signal)) found.set(`${one.purl} ${one.source}`, one);
  }
  return [...found].sort(([a], [b]) => a < b ? -1 : 1).map(([, one]) => one);
}

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

/** An SPDX identifier; it may hold letters, digits, dots and dashes. */
const idOf = ({ name, purl, source }: FoundPackage) =>
  `SPDXRef-Package-${name.replace(/[^A-Za-z0-9.-]+/g, "-")}-${
    sha256(`${purl} ${source}`).slice(0, 16)
  }`;

export interface SpdxOptions {
  /** What the document is about: the image's name, or its digest. */
  name: string;
  /** Seconds since 1970. */
  created: number;
  /** "svc-1.2.3". */
  tool: string;
}

const ROOT = "SPDXRef-DocumentRoot-Image";

/** The same packages of the same image at the same time give the same document. */
export function spdxDocument(
  packages: readonly FoundPackage[],
  { name, created, tool }: SpdxOptions,
): Record<string, unknown> {
  const content = sha256(JSON.stringify([name, created, packages]));
  const entry = (one: FoundPackage) => ({
    name: one.name,
    SPDXID: idOf(one),
    versionInfo: one.version,
    ...(one.supplier && { supplier: one.supplier }),
    downloadLocation: "NOASSERTION",
    filesAnalyzed: false,
    sourceInfo: `installed according to ${one.source}`,
    licenseConcluded: "NOASSERTION",
    licenseDeclared: "NOASSERTION",
    ...(one.license && { licenseComments: `The record says: ${one.license}` }),
    copyrightText: "NOASSERTION",
    externalRefs: [{
      referenceCategory: "PACKAGE-MANAGER",
      referenceType: "purl",
      referenceLocator: one.purl,
    }],
  });
  return {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name,
    documentNamespace: `urn:svc:sbom:${content}`,
    creationInfo: {
      created: new Date(created * 1000).toISOString().replace(".000Z", "Z"),
      creators: [`Tool: ${tool}`],
      comment: COVERAGE,
    },
    packages: [{
      name,
      SPDXID: ROOT,
      downloadLocation: "NOASSERTION",
      filesAnalyzed: false,
      primaryPackagePurpose: "CONTAINER",
    }, ...packages.map(entry)],
    relationships: [
      {
        spdxElementId: "SPDXRef-DOCUMENT",
        relationshipType: "DESCRIBES",
        relatedSpdxElement: ROOT,
      },
      ...packages.map((one) => ({
        spdxElementId: ROOT,
        relationshipType: "CONTAINS",
        relatedSpdxElement: idOf(one),
      })),
    ],
  };
}
