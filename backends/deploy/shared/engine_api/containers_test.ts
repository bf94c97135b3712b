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
  const watch = { expect: () => () => Promise.resolve() } as unknown as EngineWatch;
  const containers = new Containers({
    ...{ client: daemon.client, watch, behaviour: DOCKER },
    companions: { remove: () => Promise.resolve() },
  });
  const stop = new AbortController();
  const rejected = assert.rejects(containers.create(REQUEST, "web-0", stop.signal), /enough/);
  await asked.promise;
  stop.abort(new Error("enough"));
  over.resolve();
  await rejected;
  assert.match(daemon.lines.at(-1)!, /^DELETE \S+\/containers\/made\?/);
});
