/** Native ingress against a stand-in for a cluster's API server. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { startKubeStub, type StubServices } from "../../../test/peers/kube_stub.ts";
import type { IngressRoute } from "../../api/ingress.ts";
import { SvcError } from "../../base/errors.ts";
import { parseController } from "../kube/ingress_controller.ts";
import { openConduit } from "./conduit.ts";
import { type IngressOptions, prepareIngress } from "./ingress.ts";
import type { Services } from "./services.ts";

const services: Services = {
  dial: () => Promise.reject(new Error("nothing goes through the server")),
  list: () => Promise.resolve([]),
};

const ROUTE: IngressRoute = {
  ...{ host: "app.test", path: "/", pathType: "Prefix", deployment: "web", port: 80, tls: true },
};

/** A controller that says which of its ports was asked. */
function controller(name: string) {
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => new Response(`${name} ${request.headers.get("x-host")}`),
  );
  return { port: server.addr.port, [Symbol.asyncDispose]: () => server.shutdown() };
}

interface World extends AsyncDisposable {
  /** Answers of http and https, by the local listeners. */
  ask(more: Partial<IngressOptions>): Promise<Record<string, string>>;
  calls: string[];
}

/** A cluster with Services whose http and https lead to two servers. */
async function world(
  of: (ports: { http: number; https: number }) => StubServices,
): Promise<World> {
  await using stack = new AsyncDisposableStack();
  const http = stack.use(controller("http"));
  const https = stack.use(controller("https"));
  const kube = stack.use(await startKubeStub(9, of({ http: http.port, https: https.port })));
  const kept = stack.move();
  return {
    calls: kube.calls,
    async ask(more) {
      const warnings: string[] = [];
      const warn = (text: string) => void warnings.push(text);
      await using ingress = await prepareIngress({
        settings: { mode: "native" },
        cluster: { "kube-context": "test", service: "svc", "remote-port": 80 },
        env: kube.env,
        warn,
        signal: new AbortController().signal,
        ...more,
      });
      await using conduit = await openConduit({
        ...{ mode: "port-forward", services, settings: {}, ingress, warn },
        deployments: [{ name: "web", ports: [], ingress: [ROUTE] }],
      });
      const answers: Record<string, string> = {};
      for (const endpoint of conduit.endpoints) {
        if (endpoint.kind !== "ingress") continue;
        const [scheme] = endpoint.url.split(":");
        // Whatever TLS there is, is the controller's: bytes are passed on.
        const response = await fetch(`http://${endpoint.address}/`, {
          headers: { "x-host": "app.test", connection: "close" },
        });
        answers[scheme] = await response.text();
      }
      assert.deepEqual(warnings, []);
      return answers;
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

const BOTH = { http: "http app.test", https: "https app.test" };

const pair = ({ http, https }: { http: number; https: number }) => [
  { port: 80, name: "http", targetPort: http },
  { port: 443, name: "https", targetPort: https },
];

async function refused(act: Promise<unknown>, why: RegExp, help: RegExp): Promise<void> {
  await assert.rejects(act, (error) => {
    assert.ok(error instanceof SvcError, String(error));
    assert.match(error.message, why);
    assert.match(error.help, help);
    return true;
  });
}

Deno.test("Ingress row: mode native forwards the controller that is found under a well-known name", async () => {
  for (const place of ["ingress-nginx/ingress-nginx-controller", "kube-system/traefik"]) {
    await using cluster = await world((ports) => ({
      [place]: [
        { port: 8443, name: "websecure", targetPort: ports.https },
        { port: 80, targetPort: ports.http },
        { port: 9000, name: "admin", targetPort: 9 },
      ],
    }));
    assert.deepEqual(await cluster.ask({}), BOTH);
  }
  await using none = await world(() => ({}));
  await refused(
    none.ask({}),
    /Cannot find the cluster's ingress controller: .*ingress-nginx\/ingress-nginx-controller, .*traefik/,
    /conduit\.ingress\.controller/,
  );
});

Deno.test("IngressController rows: kube-context, namespace, service, http-port, https-port", async () => {
  await using cluster = await world((ports) => ({
    "edge/gate": [
      { port: 8080, name: "a", targetPort: ports.http },
      { port: 8443, name: "b", targetPort: ports.https },
    ],
    "edge/traefik": pair(ports),
    "team/gate": pair(ports),
  }));
  const ask = (controller: NonNullable<IngressOptions["settings"]["controller"]>, more = {}) =>
    cluster.ask({ settings: { mode: "native", controller }, ...more });
  const ports = { "http-port": 8080, "https-port": 8443 };
  assert.deepEqual(await ask({ namespace: "edge", service: "gate", ...ports }), BOTH);
  // Names that are well known, in the namespace that is given; the context's, where none is.
  assert.deepEqual(await ask({ namespace: "edge" }), BOTH);
  assert.deepEqual(await ask({ service: "gate" }), BOTH);
  const away = { service: "svc", "remote-port": 80, "kube-context": "other" };
  assert.deepEqual(await ask({ "kube-context": "test", service: "gate" }, { cluster: away }), BOTH);
  const alone = { cluster: undefined };
  assert.deepEqual(await ask({ "kube-context": "test", service: "gate" }, alone), BOTH);
  const { https: _, ...http } = BOTH;
  assert.deepEqual(await ask({ namespace: "edge", service: "gate", "http-port": 8080 }), http);
  await refused(
    ask({ service: "gate", "https-port": 444 }),
    /controller team\/gate: it has no port 444 for https, but 80, 443/,
    /conduit\.ingress\.controller\.https-port/,
  );
  await refused(
    ask({ namespace: "edge", service: "gate" }),
    /edge\/gate: it has no port for http or https/,
    /http-port/,
  );
  await refused(ask({ service: "no" }), /there is no Service team\/no/, /controller/);
  await refused(
    ask({}, alone),
    /Cannot use conduit\.ingress\.mode native: the profile reaches its server without a cluster/,
    /conduit\.ingress\.controller\.kube-context/,
  );
});

Deno.test("native ingress, controller: what the server names goes before what is well known, the profile before both", async () => {
  await using cluster = await world((ports) => ({
    "far/gate": [
      { port: 1080, targetPort: ports.http },
      { port: 1443, targetPort: ports.https },
    ],
    "team/own": pair(ports),
  }));
  const controller = (text: string) => () => Promise.resolve(text);
  assert.deepEqual(await cluster.ask({ controller: controller("far/gate:1080/1443") }), BOTH);
  const settings = { mode: "native", controller: { service: "own" } };
  assert.deepEqual(await cluster.ask({ settings, controller: controller("far/gate") }), BOTH);
  assert.deepEqual(parseController("a/b:80/443"), {
    ...{ namespace: "a", service: "b", httpPort: 80, httpsPort: 443 },
  });
  assert.deepEqual(parseController("a/b"), { namespace: "a", service: "b" });
  for (const text of ["", "a", "a/b:80", "a/b/c", "a/b:x/y", "A/b"]) {
    assert.equal(parseController(text), undefined, text);
  }
});

Deno.test("native ingress: a cluster that cannot be reached is said before anything is deployed", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const options = {
      settings: { mode: "native" },
      cluster: { "kube-context": "test", service: "svc", "remote-port": 80 },
      env: { KUBECONFIG: join(folder, "none") },
      warn: (text: string) => assert.fail(text),
      signal: new AbortController().signal,
    };
    await refused(prepareIngress(options), /Cannot use the kubeconfig/, /kubectl/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
