import assert from "node:assert/strict";
import { validateDeploySpec } from "../../../../lib/api/deploy_spec_parse.ts";
import { silent } from "../../../../lib/base/log.ts";
import type { Inspected } from "./inspect.ts";
import {
  COMPANION_SERVER,
  containerLabels,
  DEPLOYMENT,
  PROBES,
  REHEARSAL,
  REPLICA,
  SERVER,
} from "./labels.ts";
import { Probes } from "./probes.ts";

const spec = validateDeploySpec({
  name: "web",
  image: "app",
  labels: { a: "b", [PROBES]: "x", [REHEARSAL]: "1", [COMPANION_SERVER]: "s" },
});

Deno.test("each label that svc reads is set, so that the image's never counts", () => {
  assert.deepEqual(containerLabels(spec, { server: "s", replica: 0 }), {
    a: "b",
    [SERVER]: "s",
    [DEPLOYMENT]: "web",
    [REPLICA]: "0",
    [REHEARSAL]: "",
    [COMPANION_SERVER]: "",
    [PROBES]: "",
  });
  const labels = containerLabels(spec, { server: "s", replica: 1, rehearsal: true, probes: "{}" });
  assert.equal(labels[REHEARSAL], "1");
  assert.equal(labels[PROBES], "{}");
  // The image's that are not to count; the spec's own count, where they are permitted.
  const emptied = containerLabels(spec, {
    server: "s",
    replica: 0,
    emptied: ["traefik.enable", "a"],
  });
  assert.equal(emptied["traefik.enable"], "");
  assert.equal(emptied.a, "b");
});

const running = (label: string) =>
  ({
    Id: label,
    State: { Running: true, Restarting: false, StartedAt: new Date().toISOString() },
    Config: { Labels: { [PROBES]: label }, Tty: false },
  }) as unknown as Inspected;

Deno.test("a label of times that is not svc's starts no health checks and breaks nothing", async () => {
  const closed = new AbortController();
  const known = new Map<string, Inspected>();
  const probed: string[] = [];
  const first = Promise.withResolvers<void>();
  const probes = new Probes({
    probe: (container) => {
      probed.push(container);
      first.resolve();
      return Promise.resolve();
    },
    state: (container) => known.get(container),
    signal: closed.signal,
    log: silent,
  });
  const see = (label: string) => {
    const found = running(label);
    known.set(found.Id, found);
    probes.see(found);
  };
  for (const label of ["x", "null", "{}", "[]", "", '{"interval":"1"}']) see(label);
  // More than a timer takes would be at once.
  see(JSON.stringify({ interval: 1e12, startInterval: 1e12, startPeriod: 0 }));
  const good = JSON.stringify({ interval: 1, startInterval: 1, startPeriod: 0 });
  see(good);
  await first.promise;
  closed.abort();
  assert.deepEqual([...new Set(probed)], [good]);
});
