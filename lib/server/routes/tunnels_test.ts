import assert from "node:assert/strict";
import type { ActivityEntry } from "../../api/activity.ts";
import type { TunnelEvent, TunnelStatus } from "../../api/tunnel.ts";
import { SvcError } from "../../base/errors.ts";
import { silent } from "../../base/log.ts";
import type { DeployBackend } from "../../deploy/backend.ts";
import type { OpenTunnel, TunnelRequest } from "../../tunnel/tunnel.ts";
import { Tunnels } from "../../tunnel/tunnels.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { entryOf } from "../activity/entry.ts";
import { duplexPair } from "../../wire/testing.ts";
import { ServerIngress } from "../ingress/ingress.ts";
import { jsonLines, startTestServer, STATUS } from "../testing.ts";

const API = "/.svc/v1/tunnels";
const NDJSON = { accept: "application/x-ndjson" };

/** A backend whose tunnels lead from nowhere. */
class FakeBackend {
  readonly requests: TunnelRequest[] = [];
  readonly ends: ((why?: SvcError) => void)[] = [];
  disposed = 0;

  open(request: TunnelRequest): Promise<OpenTunnel> {
    if (request.credential === "wrong") {
      return Promise.reject(new SvcError("upstream_failed", "Cannot open a tunnel: refused"));
    }
    const closed = Promise.withResolvers<SvcError | undefined>();
    const number = this.requests.push(request);
    this.ends.push(closed.resolve);
    return Promise.resolve({
      url: `http://public-${number}.example`,
      closed: closed.promise,
      [Symbol.asyncDispose]: () => {
        this.disposed++;
        closed.resolve(undefined);
        return Promise.resolve();
      },
    });
  }
}

async function textOf(stream: Duplex): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (let bytes; (bytes = await stream.read());) text += decoder.decode(bytes, { stream: true });
  return text;
}

interface Scene extends AsyncDisposable {
  backend: FakeBackend;
  post(body: unknown, headers?: Record<string, string>, signal?: AbortSignal): Promise<Response>;
  call(method: string, path: string): Promise<{ status: number; body: unknown }>;
  list(): Promise<TunnelStatus[]>;
  /** Hosts that deployments of their first label declare. */
  declare(...hosts: string[]): void;
  /** Entries of the flight record so far. */
  entries: Omit<ActivityEntry, "time">[];
  noted(count: number): Promise<void>;
  drain(): void;
}

async function scene(
  dial: DeployBackend["dial"] = () => Promise.reject(new Error("none")),
): Promise<Scene> {
  const backend = new FakeBackend();
  const tunnels = new Tunnels({
    backend: (name) =>
      name === "fake" ? Promise.resolve(backend) : Promise.reject(
        new SvcError(
          "not_in_build",
          `Cannot open a tunnel with ${name}: it is not in this build yet`,
        ),
      ),
    defaultBackend: "fake",
    credential: "the server's own",
    usable: ["fake"],
    log: silent,
  });
  const ingress = new ServerIngress({
    config: { ingressEnforceDomain: false },
    backend: () => Promise.resolve({ dial } as DeployBackend),
    log: silent,
  });
  const entries: Scene["entries"] = [];
  let arrival = Promise.withResolvers<void>();
  const server = await startTestServer({
    backend: { status: (name) => Promise.resolve(name === "web" ? STATUS : undefined), dial },
    deps: { tunnels, ingress },
    note(answered) {
      const entry = entryOf(answered);
      if (entry) entries.push(entry);
      arrival.resolve();
      arrival = Promise.withResolvers();
    },
  });
  const call: Scene["call"] = async (method, path) => {
    const response = await fetch(server.base + API + path, { method });
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  };
  return {
    ...{ backend, entries, call },
    post: (body, headers = {}, signal) =>
      fetch(server.base + API, {
        method: "POST",
        headers,
        body: typeof body === "string" ? body : JSON.stringify(body),
        signal,
      }),
    list: async () => (await call("GET", "")).body as TunnelStatus[],
    async noted(count) {
      while (entries.length < count) await arrival.promise;
    },
    declare(...hosts) {
      for (const host of hosts) {
        const deployment = host.split(".")[0];
        const route = {
          host,
          path: "/",
          pathType: "Prefix",
          deployment,
          port: 80,
          tls: false,
        } as const;
        ingress.table.set(deployment, [route]);
      }
    },
    drain: () => server.lifecycle.drain(),
    async [Symbol.asyncDispose]() {
      await tunnels[Symbol.asyncDispose]();
      ingress[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

Deno.test("tunnels: opened, listed, shown and closed; the record says who and what", async () => {
  await using at = await scene();
  const answer = await at.post({ deployment: "web", port: 8080 });
  assert.equal(answer.status, 201);
  const made = await answer.json() as TunnelStatus;
  assert.deepEqual(
    { ...made, id: "", openedAt: "" },
    {
      ...{ id: "", deployment: "web", port: 8080, protocol: "http", backend: "fake" },
      ...{ url: "http://public-1.example", state: "up", held: false, connections: 0 },
      ...{ subject: "anonymous", openedAt: "" },
    },
  );
  assert.equal(answer.headers.get("location"), `${API}/${made.id}`);
  assert.deepEqual(await at.list(), [made]);
  assert.deepEqual((await at.call("GET", `/${made.id}`)).body, made);
  at.backend.requests[0].onChange!({ state: "down", reason: "cut" });
  const [down] = await at.list();
  assert.deepEqual([down.state, down.reason], ["down", "cut"]);
  at.backend.requests[0].onChange!({ state: "up", url: "http://other.example" });
  assert.deepEqual((await at.list()).map(({ url, reason }) => [url, reason]), [
    ["http://other.example", undefined],
  ]);
  assert.equal((await at.call("DELETE", `/${made.id}`)).status, 204);
  assert.equal((await at.call("DELETE", `/${made.id}`)).status, 404);
  assert.deepEqual(await at.list(), []);
  await at.noted(3);
  assert.deepEqual(at.entries.map(({ action, name, result }) => [action, name, result]), [
    ["deploy", "web:8080 at http://public-1.example", "ok"],
    ["deploy", "web:8080 at http://other.example", "ok"],
    ["deploy", undefined, "failed"],
  ]);
});

Deno.test("tunnels: credentials are the request's, else the server's own; none is told", async () => {
  await using at = await scene();
  for (const [body, credential] of [[{}, "the server's own"], [{ credential: "mine" }, "mine"]]) {
    const answer = await at.post({ deployment: "web", port: 80, ...body as object });
    assert.doesNotMatch(await answer.text(), /mine|own/);
    assert.equal(at.backend.requests.at(-1)!.credential, credential);
  }
  assert.doesNotMatch(JSON.stringify([await at.list(), at.entries]), /mine|own/);
});

Deno.test("tunnels: what cannot be opened is refused, and says nothing of a credential", async () => {
  await using at = await scene();
  const good = { deployment: "web", port: 80, credential: "secret-of-mine" };
  const rows: [unknown, number, RegExp][] = [
    ["{", 400, /not JSON$/],
    [`{"credential": "secret-of-mine" x`, 400, /not JSON$/],
    ["null", 400, /not a JSON object/],
    [{ ...good, prot: 80 }, 400, /unknown field prot; did you mean port\?/],
    [{ ...good, port: 0 }, 400, /port: expected/],
    [{ ...good, port: "80" }, 400, /port: expected/],
    [{ ...good, protocol: "udp" }, 400, /protocol: expected http or tcp/],
    [{ ...good, deployment: 5 }, 400, /deployment: expected a text/],
    [{ port: 80 }, 400, /deployment: missing/],
    [{ ...good, deployment: "wbe" }, 404, /no such deployment/],
    [{ ...good, backend: "ngrok" }, 501, /with ngrok: it is not in this build yet/],
    [{ ...good, credential: "wrong" }, 502, /refused/],
    ["x".repeat(300_000), 413, /more than/],
  ];
  for (const [body, status, message] of rows) {
    for (const headers of [{}, NDJSON]) {
      const answer = await at.post(body, headers);
      const text = await answer.text();
      assert.equal(answer.status, status, text);
      assert.match(JSON.parse(text).detail, message);
      assert.doesNotMatch(text, /secret-of-mine/);
    }
  }
  assert.deepEqual(await at.list(), []);
});

Deno.test("tunnels: one that is held says what becomes of it, and ends with a DELETE", async () => {
  await using at = await scene();
  const answer = await at.post({ deployment: "web", port: 80 }, NDJSON);
  const events = jsonLines<TunnelEvent>(answer);
  const next = async () => (await events.next()).value as TunnelEvent;
  const opened = await next();
  assert(opened.type === "opened");
  assert.equal(opened.tunnel.held, true);
  const [request] = at.backend.requests;
  request.onChange!({ state: "down", reason: "cut" });
  assert.deepEqual(await next(), { type: "down", reason: "cut" });
  request.onChange!({ state: "up", url: "http://other.example" });
  assert.deepEqual(await next(), { type: "up", url: "http://other.example" });
  assert.equal((await at.call("DELETE", `/${opened.tunnel.id}`)).status, 204);
  assert.deepEqual(await next(), { type: "closed" });
  assert.equal((await events.next()).done, true);
});

Deno.test("tunnels: a caller who goes away ends the tunnel, and the record has no failure", async () => {
  await using at = await scene();
  const abort = new AbortController();
  const answer = await at.post({ deployment: "web", port: 80 }, NDJSON, abort.signal);
  const events = jsonLines<TunnelEvent>(answer);
  await events.next();
  assert.equal((await at.list()).length, 1);
  abort.abort();
  await assert.rejects(events.next());
  await at.noted(1);
  while ((await at.list()).length > 0) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(at.backend.disposed, 1);
  const [{ name, result, code }] = at.entries;
  assert.deepEqual([name, result, code], ["web:80 at http://public-1.example", "ok", undefined]);
});

Deno.test("tunnels: one that is given up, and the server's end, are told as what they are", async () => {
  await using at = await scene();
  const last = async (response: Response) =>
    (await Array.fromAsync(jsonLines<TunnelEvent>(response))).at(-1);
  const first = await at.post({ deployment: "web", port: 80 }, NDJSON);
  const second = await at.post({ deployment: "web", port: 80 }, NDJSON);
  at.backend.ends[0](new SvcError("upstream_failed", "the relay is gone"));
  const given = await last(first);
  assert(given?.type === "error");
  assert.deepEqual([given.error.code, given.error.detail], [
    "upstream_failed",
    "the relay is gone",
  ]);
  at.drain();
  const stopped = await last(second);
  assert(stopped?.type === "error");
  assert.equal(stopped.error.code, "unavailable");
});

Deno.test("tunnels: visitors reach the workload; where it does not answer HTTP's are told", async () => {
  const [near, far] = duplexPair();
  let answers = true;
  await using at = await scene(() =>
    answers
      ? Promise.resolve(near)
      : Promise.reject(new SvcError("upstream_failed", "Cannot connect to 10.1.2.3"))
  );
  await (await at.post({ deployment: "web", port: 80 })).body?.cancel();
  await (await at.post({ deployment: "web", port: 80, protocol: "tcp" })).body?.cancel();
  const [http, tcp] = at.backend.requests;
  const [visitor, inner] = duplexPair();
  http.accept(inner);
  await visitor.write(new TextEncoder().encode("hello"));
  await visitor.closeWrite();
  assert.equal(await textOf(far), "hello");
  await far.write(new TextEncoder().encode("answer"));
  await far.closeWrite();
  assert.equal(await textOf(visitor), "answer");
  answers = false;
  const [turned, away] = duplexPair();
  http.accept(away);
  const told = await textOf(turned);
  assert.match(told, /^HTTP\/1\.1 502 Bad Gateway\r\n/);
  assert.doesNotMatch(told, /10\.1\.2\.3/);
  const [silentVisitor, other] = duplexPair();
  tcp.accept(other);
  assert.equal(await textOf(silentVisitor).catch(() => ""), "");
});

Deno.test("tunnels: there is an end to how many are open", async () => {
  await using at = await scene();
  for (let i = 0; i < 64; i++) {
    await (await at.post({ deployment: "web", port: 80 })).body?.cancel();
  }
  const answer = await at.post({ deployment: "web", port: 80 });
  assert.equal(answer.status, 503);
  assert.match((await answer.json()).detail, /64 are open/);
});

/** What a visitor is answered by the newest tunnel. */
async function visit(at: Scene, host: string): Promise<string> {
  const [visitor, inner] = duplexPair();
  at.backend.requests.at(-1)!.accept(inner, "198.51.100.7");
  const request = `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
  await visitor.write(new TextEncoder().encode(request));
  const answer = await textOf(visitor);
  await visitor.closeWrite();
  return answer;
}

Deno.test("tunnels: to the ingress: host modes, what is asked of the backend, and what the workload sees", async () => {
  const dialed: string[] = [];
  let asked = "";
  await using at = await scene(async (name) => {
    dialed.push(name);
    const [near, far] = duplexPair();
    void (async () => {
      asked = new TextDecoder().decode(await far.read());
      await far.write(new TextEncoder().encode("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
      await far.closeWrite();
    })().catch(() => {/* the test ended it */});
    return await Promise.resolve(near);
  });
  const open = async (ingress: unknown) => {
    const answer = await at.post({ ingress });
    const body = await answer.json();
    return { status: answer.status, ...body };
  };
  assert.match(
    (await open({})).detail,
    /its public host is public-1\.example, and no deployment declares/,
  );
  at.declare("app.example");
  assert.equal(at.backend.disposed, 1);
  const alias = await open({});
  assert.deepEqual(alias.ingress, { hostMode: "alias", host: "app.example" });
  assert.deepEqual([alias.deployment, alias.port], [undefined, undefined]);
  assert.match(await visit(at, "public-2.example"), /^HTTP\/1\.1 200/);
  assert.match(asked, /\r\nHost: public-2\.example\r\n[^]*X-Forwarded-For: 198\.51\.100\.7\r\n/);
  await open({ hostMode: "rewrite" });
  assert.match(await visit(at, "public-3.example"), /^HTTP\/1\.1 200/);
  assert.match(asked, /\r\nHost: app\.example\r\n[^]*X-Forwarded-Host: public-3\.example\r\n/);
  at.declare("api.example");
  assert.match((await open({})).detail, /declared are api\.example, app\.example/);
  assert.match((await open({ hostMode: "alias" })).detail, /alias needs one host/);
  assert.match((await open({ host: "abc.example" })).detail, /no deployment declares the host abc/);
  const passing = await open({ hostMode: "passthrough", host: "api.example" });
  assert.deepEqual(passing.ingress, { hostMode: "passthrough", host: "api.example" });
  assert.equal(at.backend.requests.at(-1)!.hostname, "api.example");
  dialed.length = 0;
  assert.match(await visit(at, "api.example:8080"), /^HTTP\/1\.1 200/);
  assert.match(await visit(at, "app.example"), /^HTTP\/1\.1 200/);
  assert.match(await visit(at, "other.example"), /^HTTP\/1\.1 404/);
  assert.deepEqual(dialed, ["api", "app"]);
  at.declare("public-6.example");
  assert.deepEqual((await open({})).ingress, { hostMode: "passthrough" });
  assert.equal(at.backend.requests.at(-1)!.hostname, undefined);
});

Deno.test("tunnels: to the ingress: what is not a request for one", async () => {
  await using at = await scene();
  at.declare("app.example");
  const rows: [unknown, RegExp][] = [
    [{ ingress: {}, deployment: "web" }, /in the place of deployment/],
    [{ ingress: {}, port: 80 }, /in the place of deployment/],
    [{ ingress: true }, /ingress: expected an object/],
    [{ ingress: [] }, /ingress: expected an object/],
    [{ ingress: { hostmode: "alias" } }, /unknown field ingress\.hostmode; did you mean hostMode/],
    [{ ingress: { hostMode: "aliass" } }, /ingress\.hostMode: expected .*did you mean alias/],
    [{ ingress: { host: 5 } }, /ingress\.host: expected a text/],
    [{ ingress: {}, protocol: "tcp" }, /the ingress speaks http/],
  ];
  for (const [body, message] of rows) {
    const answer = await at.post(body);
    assert.equal(answer.status, 400);
    assert.match((await answer.json()).detail, message);
  }
});
