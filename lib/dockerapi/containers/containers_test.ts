import assert from "node:assert/strict";
import type { DeploymentStatus, InstanceEvent } from "../../api/deployment.ts";
import { SvcError } from "../../base/errors.ts";
import type { DockerApi } from "../api.ts";
import { EVENT_TESTS } from "../events/routes.ts";
import { filtered } from "../filters.ts";
import { EventHub } from "../events/hub.ts";
import { Containers } from "./containers.ts";
import { type ContainerRecord, LABELS } from "./record.ts";
import { exitCodeOf, stateOf } from "./seen.ts";

/** A server with deployments that a test changes. */
class FakeServer {
  readonly statuses = new Map<string, DeploymentStatus>();
  #told = Promise.withResolvers<InstanceEvent>();
  calls: string[] = [];

  put(name: string, state: "created" | "running" | "exited", more: Partial<DeploymentStatus> = {}) {
    const instance = {
      id: `${name}-0`,
      state,
      restarts: 0,
      ...state === "exited" && { exitCode: 3 },
    };
    this.statuses.set(name, {
      ...{ name, state: state === "exited" ? "stopped" : "running", image: "i", ports: [] },
      ...{ instances: [instance], createdAt: "2026-01-01T00:00:00Z", updatedAt: "", warnings: [] },
      ...more,
    });
  }

  tell(name: string, change: { type: "started" } | { type: "died"; exitCode: number }) {
    const told = this.#told;
    this.#told = Promise.withResolvers();
    const event = { time: "", deployment: name, instance: `${name}-0`, container: "c" };
    told.resolve({ ...event, ...change } as InstanceEvent);
  }

  client = {
    server: "http://s",
    json: (endpoint: string, { params }: { params?: { name: string } } = {}) => {
      this.calls.push(`${endpoint} ${params?.name ?? ""}`);
      if (endpoint === "GET /deployments") return Promise.resolve([...this.statuses.values()]);
      const found = this.statuses.get(params!.name);
      if (!found) return Promise.reject(new SvcError("not_found", "gone"));
      if (endpoint.startsWith("DELETE /deployments")) this.statuses.delete(params!.name);
      return Promise.resolve(found);
    },
    events: async function* (this: FakeServer) {
      for (;;) yield await this.#told.promise;
    }.bind(this),
  };
}

const record = (
  id: string,
  name: string,
  more: Partial<ContainerRecord> = {},
): ContainerRecord => ({
  ...{ id: id.repeat(32), name, deployment: name, created: "2026-01-01T00:00:00Z" },
  ...{ image: "i", imageId: "", given: {}, config: {}, hostConfig: {}, endpoints: {} },
  ...{ mounts: [], anonymous: [], source: { image: "i", binds: [] } },
  ...more,
});

async function withContainers(
  run: (parts: { server: FakeServer; containers: Containers; events: EventHub }) => Promise<void>,
) {
  const folder = await Deno.makeTempDir({ prefix: "svc-containers-" });
  const ending = new AbortController();
  const server = new FakeServer();
  const events = new EventHub();
  const api = {
    ...{ folder, events, isLocal: true, signal: ending.signal },
    client: () => server.client,
    warn: () => {},
  } as unknown as DockerApi;
  try {
    const containers = await Containers.open(api);
    Object.assign(api, { containers });
    await run({ server, containers, events });
  } finally {
    ending.abort();
    server.tell("none", { type: "started" });
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("docker API: containers are found by name, id and its beginning; others' deployments too", () =>
  withContainers(async ({ server, containers }) => {
    server.put("web", "running");
    server.put("theirs", "exited");
    server.put("lost", "created", {
      labels: { [LABELS.id]: "cd".repeat(32), [LABELS.name]: "Lost" },
    });
    await containers.save(record("ab", "web"));
    assert.equal((await containers.find("web")).record.id, "ab".repeat(32));
    assert.equal((await containers.find("/web")).record.name, "web");
    assert.equal((await containers.find("abab")).record.name, "web");
    const theirs = await containers.find("theirs-0");
    assert.deepEqual([stateOf(theirs), exitCodeOf(theirs)], ["exited", 3]);
    assert.equal((await containers.find(theirs.record.id.slice(0, 12))).record.name, "theirs-0");
    const lost = await containers.find("Lost");
    assert.deepEqual([lost.record.id, stateOf(lost)], ["cd".repeat(32), "created"]);
    await assert.rejects(containers.find("no"), {
      code: "not_found",
      message: /^No such container: no$/,
    });
    await assert.rejects(containers.reserve("web", AbortSignal.timeout(60_000)), {
      code: "conflict",
    });
    using _taken = await containers.reserve("new", AbortSignal.timeout(60_000));
    await assert.rejects(containers.reserve("new", AbortSignal.timeout(60_000)), {
      code: "conflict",
    });
  }));

Deno.test("docker API: a container that somebody else removed is forgotten, which is told", () =>
  withContainers(async ({ containers, events }) => {
    await containers.save(record("ab", "web"));
    assert.deepEqual(await containers.all(), []);
    assert.deepEqual(containers.records, []);
    assert.deepEqual(events.since(0).map(({ Action }) => Action), ["destroy"]);
  }));

Deno.test("docker API: wait's conditions; --rm removes what has ended when its output was read", () =>
  withContainers(async ({ server, containers, events }) => {
    const signal = AbortSignal.timeout(60_000);
    server.put("job", "exited");
    await containers.save(record("ab", "job", { hostConfig: { AutoRemove: true } }));
    const seen = await containers.find("job");
    assert.equal(await containers.life.exit(seen, "not-running", signal), 3);
    server.put("job", "created");
    const made = await containers.find("job");
    const next = containers.life.exit(made, "next-exit", signal);
    const removed = containers.life.exit(made, "removed", signal);
    const reading = Promise.withResolvers<void>();
    containers.life.reading(made.record.id, reading.promise);
    // The stream of events is open when its first event is told.
    await new Promise((resolve) => setTimeout(resolve));
    server.tell("job", { type: "died", exitCode: 7 });
    assert.equal(await next, 7);
    assert.ok(server.statuses.has("job"), "its output is still read");
    reading.resolve();
    assert.equal(await removed, 7);
    assert.ok(!server.statuses.has("job"));
    const told = events.since(0).map(({ Action }) => Action);
    assert.deepEqual(told, ["die", "destroy"]);
  }));

Deno.test("docker API: filters of events", () => {
  const hub = new EventHub();
  hub.tell("container", "exec_create: sh", "abc", { name: "web", image: "i:1", l: "1" });
  const [event] = hub.since(0);
  const test = (name: string, ...values: string[]) =>
    filtered([event], new Map([[name, values]]), EVENT_TESTS).length === 1;
  assert.equal(event.status, "exec_create: sh");
  assert.ok(test("event", "exec_create") && test("container", "web") && test("container", "ab"));
  assert.ok(test("label", "l=1") && test("type", "container") && test("image", "i:1"));
  assert.ok(!test("type", "image") && !test("event", "die") && !test("network", "web"));
  assert.throws(() => test("nope", "1"), { code: "argument_invalid" });
});
