/** Calls of a cluster's API server. */
import { type ErrorCode, SvcError } from "../../base/errors.ts";
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

/** Where a cluster is, and the way to it. */
interface Cluster {
  server: string;
  base: string;
  headers: Record<string, string>;
  bridge: Awaited<ReturnType<typeof openBridge>>;
  signal?: AbortSignal;
}

/** Codes of what a cluster refuses. */
const REFUSALS: Record<number, ErrorCode> = {
  401: "unauthorized",
  403: "denied",
  404: "not_found",
};

/** Throws `server_unreachable`, and the error of the cluster's answer. */
async function call<T>(
  cluster: Cluster,
  method: "GET" | "POST",
  path: string,
  body?: unknown,
): Promise<T> {
  let response: Response;
  try {
    response = await fetch(cluster.base + path, {
      method,
      headers: {
        ...cluster.headers,
        accept: "application/json",
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      client: cluster.bridge.http,
      signal: cluster.signal,
    });
  } catch (cause) {
    if (cluster.signal?.aborted) throw cause;
    throw cluster.bridge.explain() ??
      new SvcError("server_unreachable", `Cannot reach the cluster at ${cluster.server}`, {
        cause,
      });
  }
  const document = await response.json().catch(() => undefined) as (T & Status) | undefined;
  if (response.ok && document) return document;
  const words = document?.message ?? `it answered ${response.status}`;
  const code = REFUSALS[response.status] ?? "upstream_failed";
  throw new SvcError(code, `Cannot use the cluster at ${cluster.server}: ${words}`, {
    help: "check the kube context, the namespace and what it may do there",
  });
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
  const headers = authorization ? { authorization } : undefined;
  const cluster: Cluster = { server, base, headers: { ...headers }, bridge, signal };
  return {
    namespace: access.namespace,
    json<T>(method: "GET" | "POST", path: string, body?: unknown): Promise<T> {
      return call<T>(cluster, method, path, body);
    },
    socket: (path, protocol) =>
      new WebSocket(`${cluster.base.replace(/^http/, "ws")}${path}`, {
        headers: cluster.headers,
        protocols: [protocol],
        client: bridge.http,
      }),
    explain: bridge.explain,
    [Symbol.asyncDispose]: async () => await bridge[Symbol.asyncDispose](),
  };
}
