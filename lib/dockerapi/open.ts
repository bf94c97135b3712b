/** The Docker API of a svc server, on a socket of this machine. */
import { createHash } from "node:crypto";
import { acquireLock } from "../base/lock.ts";
import { join } from "../base/path.ts";
import { SvcError } from "../base/errors.ts";
import { homeFolder } from "../client/profile/location.ts";
import type { DockerApi } from "./api.ts";
import type { ApiParts } from "./base.ts";
import { Containers } from "./containers/containers.ts";
import { EventHub } from "./events/hub.ts";
import { listen } from "./listen.ts";
import { Networks } from "./networks/networks.ts";
import { Router } from "./router.ts";
import { ROUTES } from "./routes.ts";
import { Volumes } from "./volumes/volumes.ts";

export interface OpenOptions extends ApiParts {
  /** Absolute path of the socket. */
  path: string;
}

/** `$XDG_STATE_HOME/svc/docker`, in which each server has a folder. Throws `config_invalid` without a home. */
function stateFolder(env: ApiParts["env"], server: string): string {
  const home = homeFolder({ os: Deno.build.os, env });
  const state = env.XDG_STATE_HOME || home && join(home, ".local", "state");
  if (!state) {
    throw new SvcError(
      "config_invalid",
      "Cannot keep records of containers: the environment names no home folder",
      { help: "set XDG_STATE_HOME" },
    );
  }
  const key = createHash("sha256").update(server).digest("hex").slice(0, 16);
  return join(state, "svc", "docker", key);
}

async function openFolder({ env, client }: OpenOptions): Promise<[string, Disposable]> {
  const { server } = client();
  const folder = stateFolder(env, server);
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    return [folder, await acquireLock(join(folder, "lock"))];
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "data_dir_locked") throw error;
    throw new SvcError(
      "conflict",
      `Cannot serve the Docker API of ${server}: ${error.message.split(": ").at(-1)} already`,
      { cause: error, help: "use its socket, or end it" },
    );
  }
}

/** Listens and answers until it is disposed of. */
export async function openDockerApi(options: OpenOptions): Promise<AsyncDisposable> {
  const { path, ...parts } = options;
  await using opened = new AsyncDisposableStack();
  // Sessions are ended by the calls that go with this signal.
  const ending = new AbortController();
  const { signal } = ending;
  opened.defer(() => ending.abort(new DOMException("svc daemon docker has ended", "AbortError")));
  const [folder, lock] = await openFolder(options);
  opened.use(lock);
  const shared = { ...parts, signal, folder, socket: path, events: new EventHub() };
  const api = shared as typeof shared & Pick<DockerApi, "containers" | "networks" | "volumes">;
  [api.networks, api.volumes] = await Promise.all([Networks.open(api), Volumes.open(api)]);
  api.containers = await Containers.open(api);
  opened.defer(() => api.containers.close());
  opened.use(await listen({ path, api, router: new Router(ROUTES), signal }));
  return opened.move();
}
