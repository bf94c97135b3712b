/** The base of the builder's image: this host's own distribution, in which the executable is known to run. */

/** Fields of os-release(5), without their quotes. */
function fieldsOf(text: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, key, value] = /^\s*([A-Z0-9_]+)=(.*?)\s*$/.exec(line) ?? [];
    if (key !== undefined) fields.set(key, value.replace(/^(["'])(.*)\1$/, "$2"));
  }
  return fields;
}

const major = (version: string) => version.split(".")[0];

/** Distributions whose image has another name or another form of tag than ID:VERSION_ID. */
const NAMES: Record<string, (version: string) => string> = {
  almalinux: (version) => `almalinux:${major(version)}`,
  alpine: (version) => `alpine:${version.split(".").slice(0, 2).join(".")}`,
  amzn: (version) => `amazonlinux:${version}`,
  arch: () => "archlinux:latest",
  ol: (version) => `oraclelinux:${major(version)}`,
  "opensuse-leap": (version) => `opensuse/leap:${version}`,
  "opensuse-tumbleweed": () => "opensuse/tumbleweed:latest",
  // Red Hat's own image needs a subscription to install anything; this distribution has the same libraries.
  rhel: (version) => `almalinux:${major(version)}`,
  rocky: (version) => `rockylinux/rockylinux:${major(version)}`,
};

/** Distributions with an image by their own name. */
const OWN = new Set(["debian", "ubuntu", "fedora"]);

/** Those that are built from another one, and have the libraries of its release. */
function parentOf(fields: ReadonlyMap<string, string>): string | undefined {
  const ubuntu = fields.get("UBUNTU_CODENAME");
  if (ubuntu) return `ubuntu:${ubuntu}`;
  const debian = fields.get("DEBIAN_CODENAME") ??
    (fields.get("ID") === "raspbian" ? fields.get("VERSION_CODENAME") : undefined);
  return debian ? `debian:${debian}` : undefined;
}

/**
 * The image of the distribution that os-release(5) describes. Undefined where none is known: then
 * SVC_BUILDER_BASE_IMAGE has to name one.
 */
export function baseImageOf(osRelease: string): string | undefined {
  const fields = fieldsOf(osRelease);
  const id = fields.get("ID") ?? "";
  const version = fields.get("VERSION_ID") ?? "";
  if (Object.hasOwn(NAMES, id)) {
    const name = NAMES[id](version);
    return /[:.]$/.test(name) ? undefined : name;
  }
  if (!OWN.has(id)) return parentOf(fields);
  // Debian's testing and unstable have no number.
  const tag = version || fields.get("VERSION_CODENAME");
  return tag ? `${id}:${tag}` : undefined;
}

/** The text of this system's os-release file; empty where there is none. */
export async function readOsRelease(): Promise<string> {
  for (const path of ["/etc/os-release", "/usr/lib/os-release"]) {
    const text = await Deno.readTextFile(path).catch(() => "");
    if (text !== "") return text;
  }
  return "";
}
