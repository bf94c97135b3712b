/** Registries that one command uses: the server's own and others, with one client for each. */
import { buildInfo } from "../base/build_info.ts";
import { SvcError } from "../base/errors.ts";
import { isLoopbackHost } from "../base/host_port.ts";
import { silent } from "../base/log.ts";
import { parseServer } from "../client/client.ts";
import type { Credentials } from "../remote/auth.ts";
import { loginFiles, readDockerCredentials } from "../remote/credentials.ts";
import { createRemoteRegistry, type RemoteRegistry } from "../remote/registry.ts";

const PROXY_VARIABLES = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/** A client without a proxy for this machine's loopback, which no proxy can reach. */
function directClient(host: string, env: RegistriesOptions["env"]): Deno.HttpClient | undefined {
  if (!isLoopbackHost(host) || !PROXY_VARIABLES.some((name) => env[name])) return undefined;
  const { hostname, port } = new URL(`http://${host}`);
  return Deno.createHttpClient({
    proxy: {
      transport: "tcp",
      hostname: hostname.replace(/^\[|\]$/g, ""),
      port: Number(port || 80),
    },
  });
}

export interface RegistriesOptions {
  server: string;
  /** How to reach the server, if not by its address. */
  way?: { http?: Deno.HttpClient };
  token?: () => Promise<string | undefined>;
  env: Readonly<Record<string, string | undefined>>;
  /** A login that goes before those of docker's files. */
  login?: (host: string) => Credentials | undefined;
  /** Hosts that are contacted without TLS, beside loopback hosts. */
  plainHTTP: readonly string[];
  signal: AbortSignal;
}

export class Registries {
  /** Host in image names of the server's registry. */
  readonly serverHost: string;
  readonly #options: RegistriesOptions;
  readonly #plainServer: boolean;
  readonly #known = new Map<string, RemoteRegistry>();

  constructor(options: RegistriesOptions) {
    const url = parseServer(options.server);
    if (url.pathname !== "/") {
      throw new SvcError(
        "unsupported",
        `Cannot use the registry of ${url}: a registry stands at the top of its host`,
        { help: "name the server by its host in --server or SVC_SERVER" },
      );
    }
    this.serverHost = url.host;
    this.#plainServer = url.protocol === "http:";
    this.#options = options;
  }

  /** `host` absent: the server's. */
  get(host: string = this.serverHost): RemoteRegistry {
    let registry = this.#known.get(host);
    if (!registry) this.#known.set(host, registry = this.#connect(host));
    return registry;
  }

  #connect(host: string): RemoteRegistry {
    const own = host === this.serverHost;
    const plain = own ? this.#plainServer : this.#options.plainHTTP.includes(host) || undefined;
    const through = own ? this.#options.way?.http : undefined;
    // The tunnel does TLS, if the server has it.
    if (through) return this.#open(host, { own, client: through, plainHTTP: true });
    const client = plain === false ? undefined : directClient(host, this.#options.env);
    return this.#open(host, {
      own,
      ...(client && { client }),
      ...(plain !== undefined && { plainHTTP: plain }),
    });
  }

  #open(
    host: string,
    { own, ...how }: { own: boolean; client?: Deno.HttpClient; plainHTTP?: boolean },
  ): RemoteRegistry {
    return createRemoteRegistry({
      host,
      ...how,
      credentials: () => this.#credentials(host, own),
      userAgent: `svc/${buildInfo().version}`,
      log: silent,
    });
  }

  async #credentials(host: string, own: boolean): Promise<Credentials | undefined> {
    const { token, env, signal } = this.#options;
    // On /v2/ svc accepts its tokens as passwords, as docker login sends them.
    const password = own ? await token?.() : undefined;
    if (password) return { username: "svc", password };
    const given = this.#options.login?.(host);
    if (given) return given;
    for (const file of loginFiles(env)) {
      const found = await readDockerCredentials(file, host, { signal });
      if (found) return found;
    }
    return undefined;
  }
}
