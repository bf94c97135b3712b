/** This machine's registry logins that a build may need: only those of registries that the build names. */
import type { Logins } from "../../api/build_logins.ts";
import { SvcError } from "../../base/errors.ts";
import type { Io } from "../../base/terminal.ts";
import { imagesOf, isSafe, registriesOf } from "../../client/named_images.ts";
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
  const hosts = registriesOf([...names, ...imagesOf(dockerfile)]);
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
