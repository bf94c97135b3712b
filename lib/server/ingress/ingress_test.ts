import assert from "node:assert/strict";
import { validateDeploySpec } from "../../api/deploy_spec_parse.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { DeploymentStatus } from "../../api/deployment.ts";
import { createLogger, silent } from "../../base/log.ts";
import { SvcError } from "../../base/errors.ts";
import type { DeployBackend } from "../../deploy/backend.ts";
import { openDeployments } from "../../deploy/deployments.ts";
import { connDuplex } from "../../wire/duplex.ts";
import { Lifecycle } from "../lifecycle.ts";
import { startTestServer, STATUS } from "../testing.ts";
import { ServerIngress } from "./ingress.ts";

const specOf = (name: string, ingress: Record<string, unknown>): DeploySpec =>
  validateDeploySpec({ name, image: "app", ports: [{ container: 80 }], ingress });

class Fake {
  applied: string[] = [];
  /** Ports that dials lead to, by deployment. */
  listening = new Map<string, number>();
  failure: Error | undefined;
  #specs = new Map<string, DeploySpec>();

  constructor(specs: DeploySpec[] = []) {
    for (const spec of specs) this.#specs.set(spec.name, spec);
  }

  readonly backend = {
    name: "fake",
    caps: {},
    spec: (name: string) => Promise.resolve(this.#specs.get(name)),
    list: () => Promise.resolve([...this.#specs.keys()].map((name) => this.#status(name))),
    status: (name: string) =>
      Promise.resolve(this.#specs.has(name) ? this.#status(name) : undefined),
    apply: (spec: DeploySpec) => {
      this.applied.push(spec.name);
      if (this.failure) return Promise.reject(this.failure);
      this.#specs.set(spec.name, spec);
      return Promise.resolve({ action: "created", deployment: this.#status(spec.name) });
    },
    delete: (name: string) => Promise.resolve(this.#specs.delete(name)),
    power: (name: string) => Promise.resolve(this.#status(name)),
    dial: async (name: string) => {
      const port = this.listening.get(name);
      if (port === undefined) throw new SvcError("conflict", `Cannot connect to ${name}`);
      return connDuplex(await Deno.connect({ hostname: "127.0.0.1", port }));
    },
  } as unknown as DeployBackend;

  #status(name: string): DeploymentStatus {
    return { ...STATUS, name };
  }
}

async function ingressOver(
  fake: Fake,
  config: { ingressDomain?: string; ingressEnforceDomain?: boolean } = {},
  log = silent,
) {
  const ingress: ServerIngress = new ServerIngress({
    config: { ingressEnforceDomain: false, ...config },
    backend: () => Promise.resolve(backend),
    log,
  });
  const backend = await openDeployments(fake.backend, [ingress], log);
  return { ingress, backend };
}

const hostsOf = (status?: DeploymentStatus) => status?.ingress?.map(({ host }) => host);

Deno.test("ingress: a deployment's hosts are its own from the apply on, and free when it is gone", async () => {
  const fake = new Fake([specOf("old", { hosts: ["old.test"] })]);
  const { ingress, backend } = await ingressOver(fake, { ingressDomain: "example.com" });
  using _ingress = ingress;
  assert.deepEqual(hostsOf(await backend.status("old")), ["old.test"]);
  const { deployment } = await backend.apply(specOf("web", {}));
  assert.deepEqual(deployment.ingress, [{
    host: "web.example.com",
    path: "/",
    pathType: "Prefix",
    deployment: "web",
    port: 80,
    tls: false,
  }]);
  assert.deepEqual((await backend.list()).map(hostsOf), [["old.test"], ["web.example.com"]]);
  assert.deepEqual(hostsOf(await backend.power("web", "stop")), ["web.example.com"]);

  await assert.rejects(backend.apply(specOf("thief", { hosts: ["old.test"] })), {
    code: "conflict",
    message: /belongs to deployment old$/,
  });
  assert.deepEqual(fake.applied, ["web"]);
  // What fails leaves no claim behind, and what there was.
  fake.failure = new SvcError("deploy_failed", "it does not start");
  await assert.rejects(backend.apply(specOf("web", { hosts: ["new.test"] })), fake.failure);
  fake.failure = undefined;
  assert.deepEqual(hostsOf(await backend.status("web")), ["web.example.com"]);
  await backend.apply(specOf("other", { hosts: ["new.test"] }));
  assert.equal(await backend.delete("old"), true);
  await backend.apply(specOf("thief", { hosts: ["old.test"] }));
  await backend.apply(specOf("thief", { enabled: false }));
  assert.equal((await backend.status("thief"))!.ingress, undefined);
});

Deno.test("ingress: an enforced domain refuses before anything is done, also what was there before", async () => {
  const lines: string[] = [];
  const log = createLogger({ level: "info", format: "json", write: (line) => lines.push(line) });
  const fake = new Fake([specOf("old", { hosts: ["old.test"] })]);
  const { ingress, backend } = await ingressOver(
    fake,
    { ingressDomain: "example.com", ingressEnforceDomain: true },
    log,
  );
  using _ingress = ingress;
  assert.match(lines.join("\n"), /ingress is not served.*old.*outside the domain example\.com/);
  assert.equal((await backend.status("old"))!.ingress, undefined);
  await assert.rejects(backend.apply(specOf("web", { hosts: ["evil-example.com"] })), {
    code: "denied",
  });
  await assert.rejects(ingressOver(fake, { ingressDomain: "not a domain" }), {
    code: "config_invalid",
    message: /SVC_INGRESS_DOMAIN/,
  });
  assert.deepEqual(fake.applied, []);
});

Deno.test("ingress: the routes of the management API go through it, and /info tells of it", async () => {
  const { ingress, backend } = await ingressOver(new Fake(), { ingressDomain: "example.com" });
  using _ingress = ingress;
  await using server = await startTestServer({
    deps: { ingress, deploy: { name: "fake", backend: () => Promise.resolve(backend) } },
  });
  const apply = (spec: DeploySpec) =>
    fetch(`${server.base}/.svc/v1/deployments/${spec.name}`, {
      method: "PUT",
      body: JSON.stringify(spec),
    });
  const first = await (await apply(specOf("web", {}))).json();
  assert.deepEqual(hostsOf(first.deployment), ["web.example.com"]);
  const second = await apply(specOf("two", { hosts: ["web.example.com"] }));
  assert.equal(second.status, 409);
  assert.equal((await second.json()).code, "conflict");
  const info = await (await fetch(`${server.base}/.svc/v1/info`)).json();
  assert.deepEqual(info.ingress, { enabled: true, domain: "example.com", enforceDomain: false });
});

interface Door extends AsyncDisposable {
  ingress: ServerIngress;
  lifecycle: Lifecycle;
  port: number;
}

async function openDoor(fake: Fake): Promise<Door> {
  const { ingress } = await ingressOver(fake);
  const lifecycle = new Lifecycle();
  await ingress.open("127.0.0.1:0", lifecycle);
  const port = Number(ingress.info().listen!.split(":")[1]);
  return {
    ingress,
    lifecycle,
    port,
    async [Symbol.asyncDispose]() {
      lifecycle.drain();
      await lifecycle.idle(60_000);
      ingress[Symbol.dispose]();
    },
  };
}

/** A workload on a free port, answering with what it was asked. */
async function workload(
  fake: Fake,
  name: string,
  handler: Deno.ServeHandler,
): Promise<AsyncDisposable> {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, handler);
  fake.listening.set(name, server.addr.port);
  return await Promise.resolve({ [Symbol.asyncDispose]: () => server.shutdown() });
}

Deno.test("front door: many requests on several connections, each to its deployment", async () => {
  const fake = new Fake(["one", "two"].map((name) => specOf(name, { hosts: [`${name}.test`] })));
  await using _one = await workload(fake, "one", async (request) =>
    new Response(
      `one ${new URL(request.url).pathname} ${request.headers.get("x-forwarded-host")} ` +
        `${await request.text()}`,
    ));
  await using _two = await workload(fake, "two", () => new Response("two"));
  await using door = await openDoor(fake);
  const base = `http://127.0.0.1:${door.port}`;
  const client = Deno.createHttpClient({ allowHost: true });
  try {
    await Promise.all(Array.from({ length: 8 }, async (_, lane) => {
      for (let n = 0; n < 25; n++) {
        const name = (lane + n) % 2 === 0 ? "one" : "two";
        const answer = await fetch(`${base}/${lane}/${n}`, {
          client,
          method: "POST",
          headers: { host: `${name}.test` },
          body: `body ${n}`,
        });
        assert.equal(
          await answer.text(),
          name === "one" ? `one /${lane}/${n} one.test body ${n}` : "two",
        );
      }
    }));
    const nobody = await fetch(base, { client, headers: { host: "three.test" } });
    assert.equal(nobody.status, 404);
    assert.match(await nobody.text(), /^svc: no deployment answers at three\.test/);
    fake.listening.delete("one");
    const stopped = await fetch(base, { client, headers: { host: "one.test" } });
    assert.equal(stopped.status, 503);
    assert.match(await stopped.text(), /^svc: deployment one cannot be reached: it does not run/);
  } finally {
    client.close();
  }
});

Deno.test("front door: large bodies both ways, whole and in order", async () => {
  const fake = new Fake([specOf("web", { hosts: ["localhost"] })]);
  await using _web = await workload(fake, "web", (request) => new Response(request.body));
  await using door = await openDoor(fake);
  const size = 8 * 1024 ** 2;
  const body = new Uint8Array(size).map((_, at) => (at * 31 + (at >> 13)) & 255);
  const answer = await fetch(`http://localhost:${door.port}/`, { method: "PUT", body });
  const back = await answer.bytes();
  assert.equal(back.length, size);
  assert(back.every((byte, at) => byte === body[at]));
});

Deno.test("front door: an address that cannot be bound is logged, and the server goes on", async () => {
  const lines: string[] = [];
  const log = createLogger({ level: "info", format: "json", write: (line) => lines.push(line) });
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { ingress } = await ingressOver(new Fake(), {}, log);
  using _ingress = ingress;
  const { port } = taken.addr as Deno.NetAddr;
  await ingress.open(`127.0.0.1:${port}`, new Lifecycle());
  assert.match(lines.join("\n"), /"level":"error".*Cannot open the ingress front door at 127/);
  assert.deepEqual(ingress.info(), { enabled: true });
});

Deno.test("front door: the server's end waits for requests, and nothing new is taken", async () => {
  const release = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const fake = new Fake([specOf("web", { hosts: ["localhost"] })]);
  await using _web = await workload(fake, "web", async () => {
    asked.resolve();
    await release.promise;
    return new Response("done");
  });
  await using door = await openDoor(fake);
  const answer = fetch(`http://localhost:${door.port}/`);
  await asked.promise;
  door.lifecycle.drain();
  assert.equal(door.lifecycle.inFlight, 1);
  await assert.rejects(fetch(`http://localhost:${door.port}/`), TypeError);
  release.resolve();
  const response = await answer;
  assert.equal(response.headers.get("connection"), "close");
  assert.equal(await response.text(), "done");
});

Deno.test("front door: the server's end waits for no connection without a request", async () => {
  const fake = new Fake([specOf("web", { hosts: ["localhost"] })]);
  await using _web = await workload(fake, "web", () => new Response("done"));
  await using door = await openDoor(fake);
  using conn = await Deno.connect({ hostname: "127.0.0.1", port: door.port });
  await conn.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const buffer = new Uint8Array(4096);
  let text = "";
  while (!text.endsWith("done")) {
    text += new TextDecoder().decode(buffer.subarray(0, (await conn.read(buffer))!));
  }
  while (door.ingress.proxy.inFlight > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  door.lifecycle.drain();
  assert.equal(door.lifecycle.inFlight, 0);
  assert.equal(await conn.read(buffer), null);
});
