/** What this folder's tests share: a server on a free port, composed of fakes. */
import { silent } from "../base/log.ts";
import type { Logger } from "../base/log.ts";
import type { DeploymentStatus } from "../api/deployment.ts";
import type { Builder } from "../build/builder.ts";
import type { DeployBackend } from "../deploy/backend.ts";
import { type Access, openAccess } from "./access.ts";
import { createDelegation, type DelegationOptions } from "./delegation.ts";
import type { ManagementDeps } from "./deps.ts";
import { isLoopback } from "./hosts.ts";
import { Lifecycle } from "./lifecycle.ts";
import { listen } from "./listener.ts";
import type { Route } from "./route.ts";
import { Router } from "./router.ts";
import { managementRoutes } from "./routes.ts";
import { openApiRoute } from "./routes/openapi.ts";
import { createHandler, type ServerOptions } from "./server.ts";

export interface TestServer extends AsyncDisposable {
  base: string;
  lifecycle: Lifecycle;
}

export interface TestOptions {
  routes?: Route[];
  builder?: Builder["build"];
  backend?: Partial<DeployBackend>;
  deps?: Partial<ManagementDeps>;
  log?: Logger;
  note?: ServerOptions["note"];
  isOwnName?: ServerOptions["isOwnName"];
}

/** A policy tells callers apart, who are whom the field X-Name says. */
export const accessByName: Access = {
  ...openAccess,
  perIdentity: true,
  authenticate: ({ headers }) => ({ subject: headers.get("x-name")!, scopes: [], method: "token" }),
};

export async function startTestServer(options: TestOptions = {}): Promise<TestServer> {
  const lifecycle = options.deps?.lifecycle ?? new Lifecycle();
  const deps: ManagementDeps = {
    lifecycle,
    access: openAccess,
    build: { version: "1.2.3", dirty: false, form: "source", tags: [] },
    registryMode: "store",
    registryWritable: true,
    registryHost: () => "localhost:5000",
    isOwnHost: isLoopback,
    builder: () =>
      Promise.resolve({
        build: options.builder ?? (() => Promise.reject(new Error("no builder in this test"))),
        [Symbol.asyncDispose]: () => Promise.resolve(),
      }),
    deploy: {
      name: "fake",
      backend: () =>
        Promise.resolve({ name: "fake", caps: {}, ...options.backend } as DeployBackend),
    },
    storage: {
      collect: () => Promise.reject(new Error("no store in this test")),
      usage: () => Promise.reject(new Error("no store in this test")),
      async *verify() {},
      scrub: () => {
        throw new Error("no store in this test");
      },
      scrubbed: () => Promise.resolve(undefined),
    },
    limits: { buildConcurrency: 2 },
    ...options.deps,
  };
  const routes: Route[] = [
    openApiRoute(() => routes),
    ...managementRoutes(deps),
    ...options.routes ?? [],
  ];
  const handler = createHandler({
    router: new Router(routes),
    access: deps.access,
    lifecycle,
    log: options.log ?? silent,
    note: options.note,
    isOwnName: options.isOwnName,
  });
  const listener = await listen({ hostname: "127.0.0.1", port: 0 }, handler);
  lifecycle.serving();
  return {
    base: `http://127.0.0.1:${listener.address.port}`,
    lifecycle,
    [Symbol.asyncDispose]: () => listener.close(),
  };
}

export async function* jsonLines<T>(response: Response): AsyncGenerator<T> {
  const text = response.body!.pipeThrough(new TextDecoderStream());
  let rest = "";
  for await (const chunk of text) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop()!;
    for (const line of lines) yield JSON.parse(line);
  }
}

export async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of source) items.push(item);
  return items;
}

/** Of the one deployment that the fakes know. */
export const STATUS: DeploymentStatus = {
  name: "web",
  state: "running",
  image: "app:v1",
  ports: [],
  instances: [],
  createdAt: "2026-01-01T00:00:00Z",
  updatedAt: "2026-01-01T00:00:00Z",
  warnings: [],
};

/** Where builds go on a server that cannot build. */
export function testDelegation(options: Partial<DelegationOptions>) {
  return createDelegation({
    auto: true,
    canBuild: () => false,
    root: "/data",
    log: silent,
    ...options,
  });
}
