/** Ingress of a conduit (SPEC.md "Ingress (inside conduit)"): the choice, and what it opens. */
import type { IngressRoute } from "../../api/ingress.ts";
import { SvcError } from "../../base/errors.ts";
import { dirname, join } from "../../base/path.ts";
import type { Environment } from "../kube/kubeconfig.ts";
import type { Conduit as ConduitSettings, PortForward } from "../profile/types.ts";
import type { Services } from "./services.ts";

export type IngressSettings = NonNullable<ConduitSettings["ingress"]>;

/** Local ports; 0: any free one. */
export interface IngressPorts {
  http: number;
  https: number;
}

/** An ingress that is open on this machine. */
export interface Ingress extends AsyncDisposable {
  /** Where it listens ("127.0.0.1:80"), by scheme; absent for a scheme that it does not serve. */
  readonly address: { readonly http?: string; readonly https?: string };
}

export interface IngressOptions {
  settings: IngressSettings;
  /** Path of the connection profile; svc keeps the authority that it makes beside that file. */
  profilePath?: string;
  /** The profile's `port-forward` block, if it has one. */
  cluster?: PortForward;
  env: Environment;
  /** The controller that the server names: `<namespace>/<service>[:httpPort/httpsPort]`. */
  controller?: () => Promise<string | undefined>;
  /** One line for a person. */
  warn: (text: string) => void;
  signal: AbortSignal;
}

/** Ingress whose settings are valid; the routes are given to `open`. */
export interface PreparedIngress extends AsyncDisposable {
  /** Opens the ingress. It must be disposed of before this object. */
  open(
    routes: readonly IngressRoute[],
    services: Services,
    ports: IngressPorts,
  ): Promise<Ingress>;
}

async function prepareEmulated(options: IngressOptions): Promise<PreparedIngress> {
  const { settings, profilePath, warn } = options;
  const [{ watchCertificates }, { configuredAuthority, generatedAuthority }] = await Promise.all([
    import("./certificates.ts"),
    import("./ingress_authority.ts"),
  ]);
  const { "ca-file": certificate, "ca-key-file": key } = settings;
  const configured = certificate !== undefined && key !== undefined
    ? await configuredAuthority({ certificate, key }, warn)
    : undefined;
  const certificates = await watchCertificates(settings.certificates ?? [], { warn });
  return {
    async open(routes, services, ports) {
      const { openEmulated } = await import("./ingress_emulate.ts");
      const authority = configured ?? await generatedAuthority(authorityFolder(profilePath));
      return await openEmulated({ services, certificates, authority, ports, routes, warn });
    },
    [Symbol.asyncDispose]() {
      certificates[Symbol.dispose]();
      return Promise.resolve();
    },
  };
}

/** The folder of the generated authority. Throws `config_invalid` where no folder is known. */
export function authorityFolder(profilePath: string | undefined): string {
  if (profilePath !== undefined) return join(dirname(profilePath), "ingress-ca");
  throw new SvcError(
    "config_invalid",
    "Cannot keep an ingress authority: the environment names no home folder",
    { help: "set conduit.ingress.ca-file and ca-key-file, or SVC_CONFIG" },
  );
}

/**
 * Reads the files that the settings name; undefined where the mode is off. Throws `config_invalid` naming the
 * field, and the error that the search for a cluster's controller ends with.
 */
export async function prepareIngress(
  options: IngressOptions,
): Promise<PreparedIngress | undefined> {
  switch (options.settings.mode) {
    case "emulate":
      return await prepareEmulated(options);
    case "native": {
      const { prepareNative } = await import("./ingress_native.ts");
      return await prepareNative(options);
    }
    default:
      return undefined;
  }
}
