/** Calls of a cluster's API server. */
import { SvcError } from "../../base/errors.ts";
import { openBridge } from "../transport/bridge.ts";
import { tcpDialer } from "../transport/tcp.ts";
import { tlsDialer } from "../transport/tls.ts";
import { type Environment, type KubeAccess, kubeAccess } from "./kubeconfig.ts";

export interface KubeApi extends AsyncDisposable {
  /** The namespace of the kube context. */
  readonly namespace: string;
  /** The answer's JSON. Throws `upstream_failed` with the API server's own words. */
  json<T>(method: "GET" | "POST", path: string, body?: unknown): Promise<T>;
  /** A WebSocket with this subprotocol, still connecting. */
  socket(path: string, protocol: string): WebSocket;
  /** Why the last connection failed, if more is known than that it failed. */
  explain(): SvcError | undefined;
}

interface Status {
  message?: string;
  reason?: string;
}

export async function openKubeApi(
  context: string | undefined,
  env: Environment,
  signal?: AbortSignal,
): Promise<KubeApi> {
  return await kubeApi(await kubeAccess(context, env, signal), signal);
}

async function kubeApi(access: KubeAccess, signal?: AbortSignal): Promise<KubeApi> {
  const { server, ca, cert, key, insecure, serverName, authorization } = access;
  const tcp = tcpDialer(server);
  const secure = server.startsWith("https:");
  const bridge = await openBridge(
    secure
      ? await tlsDialer({
        inner: tcp,
        server,
        settings: { "insecure-skip-verify": insecure, "server-name": serverName },
        pem: { ca, cert, key },
      })
      : tcp,
  );
  const url = new URL(server);
  const base = `http://${url.hostname}:${url.port || (secure ? 443 : 80)}${
    url.pathname.replace(/\/+$/, "")
  }`;
  const headers: Record<string, string> = authorization ? { authorization } : {};
  return {
    namespace: access.namespace,
    async json<T>(method: "GET" | "POST", path: string, body?: unknown): Promise<T> {
      let response: Response;
      try {
        response = await fetch(base + path, {
          method,
          headers: {
            ...headers,
            accept: "application/json",
            ...(body !== undefined && { "content-type": "application/json" }),
          },
          body: body === undefined ? undefined : JSON.stringify(body),
          client: bridge.http,
          signal,
        });
      } catch (cause) {
        if (signal?.aborted) throw cause;
        throw bridge.explain() ??
          new SvcError("server_unreachable", `Cannot reach the cluster at ${server}`, { cause });
      }
      const document = await response.json().catch(() => undefined) as (T & Status) | undefined;
      if (response.ok && document) return document;
      const words = document?.message ?? `it answered ${response.status}`;
      const code = response.status === 404
        ? "not_found"
        : response.status === 401
        ? "unauthorized"
        : response.status === 403
        ? "denied"
        : "upstream_failed";
      throw new SvcError(code, `Cannot use the cluster at ${server}: ${words}`, {
        help: "check the kube context, the namespace and what it may do there",
      });
    },
    socket: (path, protocol) =>
      new WebSocket(`${base.replace(/^http/, "ws")}${path}`, {
        headers,
        protocols: [protocol],
        client: bridge.http,
      }),
    explain: bridge.explain,
    [Symbol.asyncDispose]: async () => await bridge[Symbol.asyncDispose](),
  };
}
