/** Packages of Debian and its derivatives, from dpkg's status file or from a file for each package. */
import { distributionOf } from "./os_release.ts";
import { type FoundPackage, purl, type Scanner } from "./package.ts";

const DATABASE = "/var/lib/dpkg/status";
/** Folder of the package records in images without dpkg. */
const FOLDER = "/var/lib/dpkg/status.d";

/** Fields of each paragraph, without folded lines. */
export function* paragraphs(text: string): Generator<Map<string, string>> {
  for (const block of text.split(/\r?\n\r?\n+/)) {
    const fields = new Map<string, string>();
    for (const line of block.split(/\r?\n/)) {
      const match = /^([A-Za-z0-9-]+):\s*(.*)$/.exec(line);
      if (match) fields.set(match[1].toLowerCase(), match[2].trim());
    }
    if (fields.size > 0) yield fields;
  }
}

export const scanDpkg: Scanner = async (tree) => {
  const { id, version: release } = await distributionOf(tree);
  const sources = [DATABASE];
  for (const name of await tree.names(FOLDER)) {
    if (!name.endsWith(".md5sums")) sources.push(`${FOLDER}/${name}`);
  }
  const found: FoundPackage[] = [];
  for (const source of sources) {
    for (const fields of paragraphs(await tree.read(source) ?? "")) {
      const [name, version, status] = ["package", "version", "status"].map((key) =>
        fields.get(key)
      );
      // The status file also lists removed packages whose configuration is still there.
      if (!name || !version || status !== undefined && !/\binstalled$/.test(status)) continue;
      const distro = id && release ? `${id}-${release}` : id;
      found.push({
        name,
        version,
        purl: purl("deb", id || "debian", name, version, {
          arch: fields.get("architecture"),
          distro,
        }),
        source,
        ...(fields.get("maintainer") && { supplier: `Organization: ${fields.get("maintainer")}` }),
      });
    }
  }
  return found;
};
