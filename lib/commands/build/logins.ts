/** This machine's registry logins that a build may need: only those of registries that the build names. */
import type { Logins } from "../../api/build_logins.ts";
import { SvcError } from "../../base/errors.ts";
import { isLoopbackHost } from "../../base/host_port.ts";
import type { Io } from "../../base/terminal.ts";
import { parseReference } from "../../oci/reference.ts";
import { loginFiles, readDockerCredentials } from "../../remote/credentials.ts";
import type { Environment } from "../command.ts";

export interface LoginsInput {
  /** The server that runs the build. */
  server: string;
  /** Names of images and caches that the build reads or writes. */
  names: readonly string[];
  /** The build's Dockerfile, if the client has it. */
  dockerfile?: string;
  env: Environment;
  io: Io;
}

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

async function loginAt(host: string, env: Environment, signal: AbortSignal) {
  for (const file of loginFiles(env)) {
    const login = await readDockerCredentials(file, host, { signal });
    if (login) return login;
  }
}

/** The logins to send; undefined where there are none. */
export async function loginsFor(input: LoginsInput): Promise<Logins | undefined> {
  const { server, names, dockerfile = "", env, io } = input;
  const own = new URL(server).host;
  const hosts = new Set([...names, ...imagesOf(dockerfile)].flatMap((name) => hostOf(name) ?? []));
  hosts.delete(own);
  const logins: Logins = {};
  for (const host of [...hosts].sort()) {
    try {
      const login = await loginAt(host, env, io.signal);
      if (login) logins[host] = login;
    } catch (error) {
      // Most images need no login: the registry refuses the build if one is missing.
      if (!(error instanceof SvcError)) throw error;
      await io.stderr.write(`WARNING: ${error.message}\n`);
    }
  }
  const found = Object.keys(logins);
  if (found.length === 0) return undefined;
  if (isSafe(server)) return logins;
  await io.stderr.write(
    `WARNING: the login for ${found.join(", ")} is not sent: the connection to ${server} is not ` +
      "encrypted\n",
  );
  return undefined;
}
