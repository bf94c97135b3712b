/** Packages of Alpine and its derivatives, from apk's database of installed packages. */
import { distributionOf } from "./os_release.ts";
import { type FoundPackage, purl, type Scanner } from "./package.ts";

const DATABASES = ["/lib/apk/db/installed", "/usr/lib/apk/db/installed"];

export const scanApk: Scanner = async (tree) => {
  const { id, version: release } = await distributionOf(tree);
  for (const source of DATABASES) {
    const text = await tree.read(source);
    if (text === undefined) continue;
    return text.split("\n\n").flatMap((block): FoundPackage[] => {
      const field = (letter: string) => new RegExp(`^${letter}:(.*)$`, "m").exec(block)?.[1].trim();
      const [name, version, arch, license] = ["P", "V", "A", "L"].map(field);
      if (!name || !version) return [];
      const distro = id && release ? `${id}-${release}` : id;
      const url = purl("apk", id || "alpine", name, version, { arch, distro });
      return [{ name, version, purl: url, source, ...(license && { license }) }];
    });
  }
  return [];
};
