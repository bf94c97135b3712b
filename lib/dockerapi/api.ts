/** What the handlers of the Docker API share. */
import type { ApiBase } from "./base.ts";
import type { Containers } from "./containers/containers.ts";
import type { Networks } from "./networks/networks.ts";
import type { Volumes } from "./volumes/volumes.ts";

export interface DockerApi extends ApiBase {
  containers: Containers;
  networks: Networks;
  volumes: Volumes;
}

/** One of its kind for each API, made when it is first asked for. */
export function perApi<T>(make: (api: DockerApi) => T): (api: DockerApi) => T {
  const all = new WeakMap<DockerApi, T>();
  return (api) => {
    const one = all.get(api) ?? make(api);
    all.set(api, one);
    return one;
  };
}
