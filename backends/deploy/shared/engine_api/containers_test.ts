import assert from "node:assert/strict";
import { parseDeploySpec } from "../../../../lib/api/deploy_spec_parse.ts";
import { scriptedDaemon } from "../../../../lib/docker/testing.ts";
import { DOCKER } from "../../dockerhost/open.ts";
import { Containers } from "./containers.ts";
import type { ContainerRequest } from "./engine.ts";
import type { EngineWatch } from "./watch.ts";

const REQUEST: ContainerRequest = {
  spec: parseDeploySpec("{ name: web, image: base }"),
  server: "s",
  replica: 0,
  image: { name: "base", id: "sha256:i", digest: "sha256:d", labels: [] },
  emptied: [],
  env: {},
  attached: [],
  attachments: { kind: "none" },
  sources: [],
  pidsLimit: 0,
};

/** `expect` is fulfilled at once: nothing is told of. */
const WATCH = {
  expect: () => () => Promise.resolve(),
  state: () => undefined,
} as unknown as EngineWatch;

const COMMON = {
  ...{ watch: WATCH, behaviour: DOCKER },
  companions: { remove: () => Promise.resolve() },
};

Deno.test("containers: one whose pause was not told yet is thawed and stopped; another refusal is told", async () => {
  let paused = true;
  await using daemon = await scriptedDaemon(async (call) => {
    if (call.line.includes("/unpause")) paused = false;
    const message = call.line.includes("/other/")
      ? "no such signal"
      : paused && "container c is running or paused, refusing to clean up";
    await (message ? call.json({ message }, 500) : call.json({}));
  });
  const containers = new Containers({ ...COMMON, client: daemon.client });
  await containers.stop("c", 1);
  assert.equal(paused, false);
  await assert.rejects(containers.stop("other", 1), /no such signal/);
});

Deno.test("containers: an apply that ends while the engine makes one leaves none", async () => {
  const asked = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  await using daemon = await scriptedDaemon(async (call) => {
    if (call.line.includes("/containers/create")) {
      asked.resolve();
      // It makes the container, whether somebody waits for the answer or not.
      await over.promise;
      await call.json({ Id: "made" }, 201);
    } else await call.json({});
  });
  const containers = new Containers({ ...COMMON, client: daemon.client });
  const stop = new AbortController();
  const rejected = assert.rejects(containers.create(REQUEST, "web-0", stop.signal), /enough/);
  await asked.promise;
  stop.abort(new Error("enough"));
  over.resolve();
  await rejected;
  assert.match(daemon.lines.at(-1)!, /^DELETE \S+\/containers\/made\?/);
});
