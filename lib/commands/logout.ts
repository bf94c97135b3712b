/** `svc logout`: what svc keeps of a login is forgotten. */
import { type CacheMode, openTokenCache } from "../client/credentials/cache.ts";
import { removeLogin } from "../client/docker_login.ts";
import { editProfile, readProfile } from "../client/profile/file.ts";
import { requireProfilePath } from "../client/profile/location.ts";
import type { Invocation } from "./command.ts";
import { openConnection, target } from "./connect.ts";
import type { LOGOUT_OPTIONS } from "./login_options.ts";

export async function run(invocation: Invocation<typeof LOGOUT_OPTIONS>): Promise<number> {
  const { io, env, values } = invocation;
  if (values.all) {
    const cache = await openTokenCache({ mode: values.tokenCache as CacheMode, env });
    const count = await cache.clear();
    await io.stderr.write(`forgot ${count} short-lived credential${count === 1 ? "" : "s"}\n`);
  }
  const found = await target(invocation);
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
  if (values.docker) {
    // Not asked of the server: there may be no credential any more to ask it with.
    const host = found.registryHost ?? new URL(found.server).host;
    const places = await removeLogin(host, env);
    if (places.length > 0) {
      await io.stderr.write(`took the login for ${host} out of ${places.join(" and ")}\n`);
    }
  }
  await io.stdout.write(`logged out of ${found.server}\n`);
  return 0;
}
