/** The registries that calls about images use: the server's own, and others with the caller's login. */
import type { Credentials } from "../../remote/auth.ts";
import { Registries } from "../../transfer/registries.ts";
import type { DockerApi } from "../api.ts";
import { registryAuth } from "./login.ts";
import { ImageStore } from "./store.ts";
import type { Call } from "../request.ts";

/** Variables that say how to reach hosts. Logins come with docker's calls, never from this process's files. */
const PROXIES = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

export interface ImageAccess {
  store: ImageStore;
  /** Host in image names that workloads pull this server's images by. */
  pullHost: string;
  /** Hosts in image names that are this server. */
  own: readonly string[];
}

const opened = new WeakMap<DockerApi, Promise<ImageAccess>>();

/** `login`: the caller's, by host. */
export function registriesFor(
  api: DockerApi,
  signal: AbortSignal,
  login?: (host: string) => Credentials | undefined,
): Registries {
  const { target, way, credentials } = api.connection;
  return new Registries({
    server: target.server,
    way,
    token: () => credentials.token(),
    env: Object.fromEntries(PROXIES.map((name) => [name, api.env[name]])),
    ...(login && { login }),
    plainHTTP: [],
    signal,
  });
}

/** With the call's login for that host, and for no other. */
export function registriesOf(api: DockerApi, call: Call, host: string): Registries {
  const login = registryAuth(call.header("x-registry-auth"));
  return registriesFor(api, call.signal, (asked) => asked === host ? login : undefined);
}

async function open(api: DockerApi): Promise<ImageAccess> {
  const registries = registriesFor(api, api.signal);
  const { registry } = await api.client(api.signal).json("GET /info");
  const pullHost = registry.replace(/^https?:\/\//, "");
  const own = [...new Set([registries.serverHost, pullHost])];
  return { store: new ImageStore(registries.get(), own), pullHost, own };
}

/** The same for all calls: what manifests say is remembered. */
export function imagesOf(api: DockerApi): Promise<ImageAccess> {
  let access = opened.get(api);
  if (!access) {
    access = open(api);
    opened.set(api, access);
    access.catch(() => opened.delete(api));
  }
  return access;
}
