/** The images that a build names, and the registries whose logins it may need. */
import { isLoopbackHost } from "../base/host_port.ts";
import { parseReference } from "../oci/reference.ts";

/** Images that a Dockerfile names literally; only the server can expand an ARG. */
export function imagesOf(dockerfile: string): string[] {
  const names: string[] = [];
  for (const line of dockerfile.split(/\r?\n/)) {
    const from = /^\s*FROM\s+(?:--\S+\s+)*(\S+)/i.exec(line)?.[1];
    if (from && !from.includes("$")) names.push(from);
    for (const [, name] of line.matchAll(/(?:--from=|,from=)([^\s,]+)/g)) {
      if (!name.includes("$")) names.push(name);
    }
  }
  return names;
}

function hostOf(name: string): string | undefined {
  try {
    const { registry = "docker.io" } = parseReference(name);
    return registry === "index.docker.io" ? "docker.io" : registry;
  } catch {
    return undefined; // the name of a stage, or one that the server refuses
  }
}

/** True where logins may be sent: over a plain connection everybody on the way could read them. */
export function isSafe(server: string): boolean {
  const { protocol, host } = new URL(server);
  return protocol === "https:" || isLoopbackHost(host);
}

/** Hosts of the registries of these names. */
export const registriesOf = (names: readonly string[]): Set<string> =>
  new Set(names.flatMap((name) => hostOf(name) ?? []));
