/** From a target's transport and TLS settings to an HTTP client; loads what the transport needs. */
import type { SvcError } from "../../base/errors.ts";
import type { Target, Transport } from "../resolve.ts";
import type { Prompt } from "../prompt.ts";
import type { Dialer } from "./dialer.ts";
import type { PeerCertificate } from "./tls.ts";

export interface Way extends AsyncDisposable {
  /** What stands before the path in requests: their TLS, where there is any, is inside the way. */
  readonly base: string;
  /** Absent: Deno's own. */
  readonly http?: Deno.HttpClient;
  /** Why the last connection failed, where the way knows better than HTTP does. */
  explain(): SvcError | undefined | Promise<SvcError | undefined>;
  /** What the server shows, where it speaks TLS. */
  certificate?(): Promise<PeerCertificate>;
  /** Calls that can be repeated are worth it when a connection breaks. */
  readonly resumes: boolean;
  /** A connection got through at least once. */
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

/** By Deno's own client, which follows the proxy variables. */
function directWay({ target: { server }, env }: WayOptions): Way {
  const proxied = PROXIES.some((name) => env[name]);
  return {
    base: server,
    // What a proxy sees is not seen from here.
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

/** How the server's own TLS is asked for at the end of each kind of tunnel. */
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
  // The default port of the scheme that is shown, not of the one that is spoken to the bridge.
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
