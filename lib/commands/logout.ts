/** `svc logout`: removes what svc keeps of a login. */
import { type CacheMode, openTokenCache } from "../client/credentials/cache.ts";
import { removeLogin } from "../client/docker_login.ts";
import { editProfile, readProfile } from "../client/profile/file.ts";
import { requireProfilePath } from "../client/profile/location.ts";
import type { Target } from "../client/resolve.ts";
import type { Invocation } from "./command.ts";
import { openConnection, target } from "./connect.ts";
import { registryHosts } from "./login.ts";
import type { LOGOUT_OPTIONS } from "./login_options.ts";

/** The hosts that `svc login --docker` wrote a login for. */
async function loginHosts(
  invocation: Invocation<typeof LOGOUT_OPTIONS>,
  found: Target,
): Promise<string[]> {
  const { io, env } = invocation;
  try {
    // Logging out must not ask for a key's passphrase.
    const quiet = { ...io, stdin: { ...io.stdin, isTerminal: false } };
    const asking = { ...invocation, io: quiet, env: { ...env, SSH_ASKPASS: undefined } };
    return await registryHosts(await openConnection(asking, found));
  } catch (error) {
    io.signal.throwIfAborted();
    const { host } = new URL(found.server);
    const known = found.registryHost ?? host;
    const why = error instanceof Error ? error.message : String(error);
    await io.stderr.write(
      `svc: warning: cannot ask the server for its registry's name: ${why}; ` +
        `only a login for ${known} is taken out\n`,
    );
    return [known];
  }
}

export async function run(invocation: Invocation<typeof LOGOUT_OPTIONS>): Promise<number> {
  const { io, env, values } = invocation;
  const found = await target(invocation);
  // Asked before the credential is removed, as the call needs it.
  const hosts = values.docker ? await loginHosts(invocation, found) : [];
  if (values.all) {
    const cache = await openTokenCache({ mode: values.tokenCache as CacheMode, env });
    const count = await cache.clear();
    await io.stderr.write(`forgot ${count} short-lived credential${count === 1 ? "" : "s"}\n`);
  }
  if (found.credential.kind === "key" || found.exchange) {
    const { credentials } = await openConnection(invocation, found);
    await credentials.forget();
  }
  const path = requireProfilePath({ os: Deno.build.os, env, explicit: values.configFile });
  const { contexts } = await readProfile(path);
  const name = found.context;
  if (name !== undefined && contexts[name].token !== undefined) {
    await editProfile(path, (document) => void document.deleteIn(["contexts", name, "token"]));
    await io.stderr.write(`took the token out of context ${name} in ${path}\n`);
  }
  for (const host of hosts) {
    const places = await removeLogin(host, env);
    if (places.length > 0) {
      await io.stderr.write(`took the login for ${host} out of ${places.join(" and ")}\n`);
    }
  }
  await io.stdout.write(`logged out of ${found.server}\n`);
  return 0;
}
