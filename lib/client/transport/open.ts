/** Makes an HTTP client from a target's transport and TLS settings; imports only what the transport needs. */
import type { SvcError } from "../../base/errors.ts";
import type { Target, Transport } from "../resolve.ts";
import type { Prompt } from "../prompt.ts";
import type { Dialer } from "./dialer.ts";
import type { PeerCertificate } from "./tls.ts";

export interface Way extends AsyncDisposable {
  /** Base URL of requests. Behind a tunnel its scheme is http: TLS, if any, is done by the dialer. */
  readonly base: string;
  /** Absent: Deno's own client. */
  readonly http?: Deno.HttpClient;
  /** Why the last connection failed, if the transport knows more than HTTP does. */
  explain(): SvcError | undefined | Promise<SvcError | undefined>;
  /** The certificate that the server presents, where it speaks TLS. */
  certificate?(): Promise<PeerCertificate>;
  /** True where calls that may be repeated are worth it after a broken connection. */
  readonly resumes: boolean;
  /** True once a connection got through. */
  reached?(): boolean;
}

export interface WayOptions {
  target: Target;
  env: Readonly<Record<string, string | undefined>>;
  prompt: Prompt;
  signal: AbortSignal;
}

async function dialerOf({ target, env, prompt, signal }: WayOptions): Promise<Dialer | undefined> {
  const { transport, server } = target;
  switch (transport.kind) {
    case "ssh": {
      const { sshDialer } = await import("../ssh/dialer.ts");
      return await sshDialer({ settings: transport.settings, env, prompt, signal });
    }
    case "kube": {
      const { kubeDialer } = await import("../kube/port_forward.ts");
      return await kubeDialer({ settings: transport.settings, env, signal });
    }
    case "direct": {
      if (!target.tls || !server.startsWith("https:")) return undefined;
      const { tcpDialer } = await import("./tcp.ts");
      return tcpDialer(server);
    }
  }
}

const PROXIES = [
  "HTTPS_PROXY",
  "https_proxy",
  "HTTP_PROXY",
  "http_proxy",
  "ALL_PROXY",
  "all_proxy",
];

/** By Deno's own client, which honours the proxy variables. */
function directWay({ target: { server }, env }: WayOptions): Way {
  const proxied = PROXIES.some((name) => env[name]);
  return {
    base: server,
    // Behind a proxy the direct steps prove nothing.
    explain: async () => {
      if (proxied) return undefined;
      const { explainDirect } = await import("./explain.ts");
      return await explainDirect(server);
    },
    ...(server.startsWith("https:") && !proxied && {
      certificate: async () => {
        const [{ tcpDialer }, { peerCertificate }] = await Promise.all([
          import("./tcp.ts"),
          import("./tls.ts"),
        ]);
        return await peerCertificate(tcpDialer(server), server);
      },
    }),
    resumes: false,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** How to configure the server's own TLS at the end of each kind of tunnel, for errors. */
const TLS_HELP: Record<Transport["kind"], string> = {
  direct: "write the server as https://",
  ssh: "set ssh-tunnel.remote-tls (svc config set-context NAME --ssh-remote-tls)",
  kube: "set tls.ca-cert or tls.server-name of the context",
};

export async function openWay(options: WayOptions): Promise<Way> {
  const { server, tls } = options.target;
  let dialer = await dialerOf(options);
  if (!dialer) return directWay(options);
  const inner = dialer;
  if (server.startsWith("https:")) {
    const { tlsDialer } = await import("./tls.ts");
    dialer = await tlsDialer({ inner: dialer, settings: tls ?? {}, server });
  }
  const { openBridge } = await import("./bridge.ts");
  const bridge = await openBridge(dialer);
  const url = new URL(server);
  // The default port of the URL's scheme, not of the scheme that the bridge uses.
  const port = url.port || (url.protocol === "https:" ? "443" : "80");
  return {
    base: `http://${url.hostname}:${port}${url.pathname}`.replace(/\/+$/, ""),
    http: bridge.http,
    explain: async () => {
      const known = bridge.explain();
      if (known || server.startsWith("https:")) return known;
      const { explainTunneled } = await import("./explain.ts");
      return await explainTunneled(inner, server, TLS_HELP[options.target.transport.kind]);
    },
    ...(server.startsWith("https:") && {
      certificate: async () => {
        const { peerCertificate } = await import("./tls.ts");
        return await peerCertificate(inner, server, tls?.["server-name"]);
      },
    }),
    resumes: dialer.resumes,
    reached: bridge.reached,
    [Symbol.asyncDispose]: async () => await bridge[Symbol.asyncDispose](),
  };
}
