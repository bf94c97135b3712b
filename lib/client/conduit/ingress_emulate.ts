/**
 * Ingress that ends on this machine (SPEC.md "Ingress (inside conduit)", mode `emulate`): HTTP and HTTPS by the
 * hosts of the session's deployments, without a cluster, a controller or a public name.
 */
import type { Socket } from "node:net";
import type { IngressRoute } from "../../api/ingress.ts";
import { isAbort, type SvcError } from "../../base/errors.ts";
import { silent } from "../../base/log.ts";
import { createIngressProxy } from "../../ingress/proxy.ts";
import { IngressTable } from "../../ingress/table.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { socketDuplex } from "../../wire/socket_duplex.ts";
import type { CertificateRules } from "./certificates.ts";
import type { Ingress, IngressPorts } from "./ingress.ts";
import type { IngressAuthority } from "./ingress_authority.ts";
import { listenLocally, LOOPBACK } from "./ingress_listen.ts";
import { acceptTls, ServerContexts } from "./ingress_tls.ts";
import type { Services } from "./services.ts";
import { sparingly } from "./told.ts";

export interface EmulateOptions {
  services: Pick<Services, "dial">;
  /** `rules` is read for each connection: the files may have changed. */
  certificates: { readonly rules: CertificateRules };
  authority: IngressAuthority;
  /** The preferred local ports. */
  ports: IngressPorts;
  routes: readonly IngressRoute[];
  /** One line for a person. */
  warn: (text: string) => void;
}

/** Serves the routes until it is disposed of. */
export async function openEmulated(options: EmulateOptions): Promise<Ingress> {
  const { services, certificates, authority, routes, warn } = options;
  const tell = sparingly(warn);
  const table = new IngressTable();
  for (const [name, own] of Map.groupBy(routes, ({ deployment }) => deployment)) {
    table.set(name, own);
  }
  const proxy = createIngressProxy({
    match: (host, path) => table.match(host, path),
    dial: async ({ deployment, port }, signal) => {
      try {
        return await services.dial(deployment, port, "tcp", signal);
      } catch (error) {
        if (!isAbort(error)) tell(`${deployment}:${port}`, (error as Error).message);
        throw error;
      }
    },
    log: silent,
  });
  const contexts = new ServerContexts(() => certificates.rules, authority);
  const onError = ({ message }: SvcError) => tell("listen", message);
  const serve = (scheme: "http" | "https", open: (raw: Socket) => Promise<Duplex | undefined>) =>
    listenLocally({
      preferred: options.ports[scheme],
      onError,
      async serve(raw) {
        const remote = raw.remoteAddress;
        const stream = await open(raw);
        await (stream && proxy.accept(stream, { scheme, remote }));
      },
    });
  await using opened = new AsyncDisposableStack();
  const http = opened.use(await serve("http", (raw) => Promise.resolve(socketDuplex(raw))));
  const https = opened.use(await serve("https", (raw) => acceptTls(raw, contexts)));
  // The proxy is disposed of before the listeners, which wait for the connections that it serves.
  opened.use(proxy);
  const unknown = routes.some(({ host }) => !certificates.rules.select(host));
  if (unknown && authority.generated) {
    warn(
      "hosts without a certificate in conduit.ingress.certificates have one of svc's own " +
        `authority: clients have to trust ${authority.path}`,
    );
  }
  const kept = opened.move();
  return {
    address: { http: `${LOOPBACK}:${http.port}`, https: `${LOOPBACK}:${https.port}` },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}
