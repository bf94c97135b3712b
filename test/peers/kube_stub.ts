/**
 * A stand-in for a cluster's API server: it speaks the calls that the client uses, and the WebSocket form of
 * port-forward. Its kubeconfig has the contexts `test` (this one) and `other` (nothing there).
 */
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { stringify } from "yaml";

export interface KubeStub extends AsyncDisposable {
  /** "METHOD path" and the authorization of each call. */
  calls: string[];
  bodies: unknown[];
  port: number;
  /** Ends the forwards that there are. */
  drop(): void;
  ready: boolean;
  /** `KUBECONFIG` */
  env: Record<string, string>;
}

/** By "namespace/name": the ports of a Service, each with the port of the loopback interface it leads to. */
export type StubServices = Record<string, { port: number; name?: string; targetPort: number }[]>;

/** A cluster whose Service `svc` leads to this port of the loopback interface, in every namespace. */
export async function startKubeStub(
  target: number,
  services: StubServices = {},
): Promise<KubeStub> {
  const folder = await Deno.makeTempDir();
  const open = new Set<WebSocket>();
  const stub = { calls: [] as string[], bodies: [] as unknown[], port: 0, ready: true };
  const pod = (name: string, ready: boolean) => ({
    metadata: { name },
    spec: { containers: [{ ports: [{ name: "api", containerPort: target }] }] },
    status: { phase: "Running", conditions: [{ type: "Ready", status: ready ? "True" : "False" }] },
  });
  const forward = (request: Request): Response => {
    const { socket, response } = Deno.upgradeWebSocket(request, { protocol: "v4.channel.k8s.io" });
    socket.binaryType = "arraybuffer";
    let remote: Socket;
    const send = (channel: number, data: Uint8Array) => {
      const frame = new Uint8Array(data.length + 1);
      frame[0] = channel;
      frame.set(data, 1);
      if (socket.readyState === WebSocket.OPEN) socket.send(frame);
    };
    socket.onopen = () => {
      open.add(socket);
      const port = Number(new URL(request.url).searchParams.get("ports"));
      const head = new Uint8Array([port & 0xff, port >> 8]);
      send(0, head);
      send(1, head);
      remote = connect(port, "127.0.0.1");
      remote.on("data", (data) => send(0, new Uint8Array(data as Uint8Array)));
      remote.on("close", () => socket.close());
      remote.on("error", (error) => send(1, new TextEncoder().encode(error.message)));
    };
    socket.onmessage = ({ data }) =>
      void remote.write(new Uint8Array(data as ArrayBuffer).subarray(1));
    socket.onclose = () => {
      open.delete(socket);
      remote?.destroy();
    };
    return response;
  };
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { pathname, searchParams } = new URL(request.url);
    stub.calls.push(`${request.method} ${pathname} ${request.headers.get("authorization")}`);
    if (pathname.endsWith("/services/svc")) {
      return Response.json({
        spec: { selector: { app: "svc" }, ports: [{ port: 80, targetPort: "api" }] },
      });
    }
    const [, namespace, name] = /\/namespaces\/([^/]+)\/services\/([^/]+)$/.exec(pathname) ?? [];
    const ports = services[`${namespace}/${name}`];
    if (ports) return Response.json({ spec: { selector: { app: "svc" }, ports } });
    if (pathname.endsWith("/pods")) {
      assert.equal(searchParams.get("labelSelector"), "app=svc");
      return Response.json({ items: [pod("old", false), pod("svc-1", stub.ready)] });
    }
    if (pathname.endsWith("/pods/svc-1/portforward")) return forward(request);
    if (pathname.endsWith("/serviceaccounts/ci/token")) {
      stub.bodies.push(await request.json());
      const expirationTimestamp = new Date(Date.now() + 600_000).toISOString();
      return Response.json({ status: { token: "of-the-cluster", expirationTimestamp } }, {
        status: 201,
      });
    }
    return Response.json({ kind: "Status", message: `${pathname} not found` }, { status: 404 });
  });
  const config = join(folder, "kube");
  const named = (server: string, namespace: string) => ({ server, namespace });
  const contexts = {
    test: named(`http://127.0.0.1:${server.addr.port}`, "team"),
    other: named("http://127.0.0.1:9", "x"),
  };
  await Deno.writeTextFile(
    config,
    stringify({
      "current-context": "other",
      contexts: Object.entries(contexts).map(([name, { namespace }]) => ({
        name,
        context: { cluster: name, user: "me", namespace },
      })),
      clusters: Object.entries(contexts).map(([name, { server }]) => ({
        name,
        cluster: { server },
      })),
      users: [{ name: "me", user: { token: "kube-token" } }],
    }),
  );
  return Object.assign(stub, {
    port: server.addr.port,
    env: { KUBECONFIG: config },
    drop: () => {
      for (const socket of open) socket.close();
    },
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.close();
      await server.shutdown();
      await Deno.remove(folder, { recursive: true });
    },
  });
}
