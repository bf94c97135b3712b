/**
 * The `port-forward` transport (SPEC.md, table PortForward): a Service's port, forwarded to a ready pod
 * behind it through the API server, by its WebSocket form (`v4.channel.k8s.io`).
 */
import { Duplex } from "node:stream";
import { SvcError } from "../../base/errors.ts";
import type { PortForward } from "../profile/types.ts";
import type { Dialer } from "../transport/dialer.ts";
import { type KubeApi, openKubeApi } from "./api.ts";
import type { Environment } from "./kubeconfig.ts";

interface Service {
  spec: {
    selector?: Record<string, string>;
    ports?: { port: number; targetPort?: number | string; name?: string }[];
  };
}

interface Pod {
  metadata: { name: string; deletionTimestamp?: string };
  spec: { containers: { ports?: { name?: string; containerPort: number }[] }[] };
  status: { phase?: string; conditions?: { type: string; status: string }[] };
}

const PROTOCOL = "v4.channel.k8s.io";
/** Bytes that may wait in the socket before the stream takes no more. */
const WINDOW = 1 << 20;

const isReady = ({ metadata, status }: Pod) =>
  metadata.deletionTimestamp === undefined && status.phase === "Running" &&
  status.conditions?.some(({ type, status }) => type === "Ready" && status === "True");

function namedPort(pod: Pod, name: string): number | undefined {
  return pod.spec.containers.flatMap(({ ports = [] }) => ports)
    .find((port) => port.name === name)?.containerPort;
}

/** A ready pod behind the Service, and the port there. Throws `not_found` or `unavailable`. */
async function findPod(
  api: KubeApi,
  settings: PortForward,
): Promise<{ namespace: string; pod: string; port: number }> {
  const namespace = settings.namespace ?? api.namespace;
  const where = `service ${namespace}/${settings.service}`;
  const base = `/api/v1/namespaces/${encodeURIComponent(namespace)}`;
  const service = await api.json<Service>(
    "GET",
    `${base}/services/${encodeURIComponent(settings.service!)}`,
  );
  const wanted = service.spec.ports?.find(({ port }) => port === settings["remote-port"]);
  if (!wanted) {
    const has = service.spec.ports?.map(({ port }) => port).join(", ") || "none";
    throw new SvcError(
      "not_found",
      `Cannot forward to ${where}: it has no port ${settings["remote-port"]}, but ${has}`,
      { help: "correct port-forward.remote-port" },
    );
  }
  const selector = Object.entries(service.spec.selector ?? {}).map(([k, v]) => `${k}=${v}`).join(
    ",",
  );
  if (selector === "") {
    throw new SvcError("unsupported", `Cannot forward to ${where}: it selects no pods`, {
      help: "name a Service that has a selector",
    });
  }
  const { items } = await api.json<{ items: Pod[] }>(
    "GET",
    `${base}/pods?labelSelector=${encodeURIComponent(selector)}`,
  );
  const target = wanted.targetPort ?? wanted.port;
  for (const pod of items.filter(isReady)) {
    const port = typeof target === "number" ? target : namedPort(pod, target);
    if (port !== undefined) return { namespace, pod: pod.metadata.name, port };
  }
  throw new SvcError(
    "unavailable",
    `Cannot forward to ${where}: none of its ${items.length} pods is ready`,
    {
      help: "look at `kubectl get pods`",
    },
  );
}

/** Bytes over the forward's WebSocket: channel 0 is data, channel 1 the error; each begins with the port. */
function stream(socket: WebSocket, fail: (words: string) => SvcError): Duplex {
  const begun = [false, false];
  let error = "";
  const drained = (done: (error?: Error) => void) => {
    if (socket.bufferedAmount <= WINDOW || socket.readyState !== WebSocket.OPEN) return done();
    setTimeout(() => drained(done), 5);
  };
  const duplex = new Duplex({
    // The protocol has no half-close: ending the writable side has no effect on the forward.
    allowHalfOpen: true,
    read() {},
    write(chunk: Uint8Array, _encoding, done) {
      if (socket.readyState !== WebSocket.OPEN) return done(fail("the forward is closed"));
      const frame = new Uint8Array(chunk.length + 1);
      frame.set(chunk, 1);
      socket.send(frame);
      drained(done);
    },
    destroy(cause, done) {
      socket.close();
      done(cause);
    },
  });
  socket.onmessage = ({ data }) => {
    const bytes = new Uint8Array(data as ArrayBuffer);
    const channel = bytes[0];
    if (channel > 1) return;
    const rest = bytes.subarray(begun[channel] ? 1 : 3);
    begun[channel] = true;
    if (rest.length === 0) return;
    if (channel === 0) duplex.push(rest);
    else duplex.destroy(fail(error += new TextDecoder().decode(rest)));
  };
  socket.onclose = () => {
    duplex.push(null);
    duplex.end();
  };
  socket.onerror = () => duplex.destroy(fail("the forward broke"));
  return duplex;
}

export interface KubeDialerOptions {
  settings: PortForward;
  env: Environment;
  signal: AbortSignal;
}

class PodDialer implements Dialer {
  readonly resumes = true;
  readonly #api: KubeApi;
  readonly #settings: PortForward;
  #pod?: Promise<Awaited<ReturnType<typeof findPod>>>;

  constructor(api: KubeApi, settings: PortForward) {
    this.#api = api;
    this.#settings = settings;
  }

  async dial(): Promise<Duplex> {
    const { namespace, pod, port } = await (this.#pod ??= findPod(this.#api, this.#settings));
    const fail = (words: string) =>
      new SvcError(
        "server_unreachable",
        `Cannot forward to pod ${namespace}/${pod}:${port}: ${words.trim()}`,
        {
          help: "look at `kubectl logs`; the pod may have just ended",
        },
      );
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${
      encodeURIComponent(pod)
    }/portforward?ports=${port}`;
    const socket = this.#api.socket(path, PROTOCOL);
    socket.binaryType = "arraybuffer";
    const opened = Promise.withResolvers<void>();
    socket.onopen = () => opened.resolve();
    socket.onerror = (event) => opened.reject((event as ErrorEvent).error ?? event);
    const duplex = opened.promise.then(() => stream(socket, fail));
    try {
      return await duplex;
    } catch {
      // The pod may be gone: the next connection looks for a ready pod again.
      this.#pod = undefined;
      throw this.#api.explain() ?? fail("the API server refused the forward");
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#api[Symbol.asyncDispose]();
  }
}

export async function kubeDialer({ settings, env, signal }: KubeDialerOptions): Promise<Dialer> {
  return new PodDialer(await openKubeApi(settings["kube-context"], env, signal), settings);
}
