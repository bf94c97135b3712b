import { deepEqual, equal, match, ok } from "node:assert/strict";
import { circle, type Graph, nodeLoads, objection } from "./check_layers.ts";

Deno.test("layers: what each place may import", () => {
  equal(objection("lib/build/engine.ts", "lib/oci/types.ts"), undefined);
  equal(objection("lib/server/server.ts", "lib/store/content.ts"), undefined);
  equal(objection("main.ts", "backends/store/fs.ts"), undefined);
  equal(objection("backends/deploy/mod.ts", "backends/deploy/bare/mod.ts"), undefined);
  equal(objection("backends/deploy/docker/mod.ts", "backends/deploy/shared/rest.ts"), undefined);
  equal(objection("backends/store/gcs/bucket.ts", "backends/store/shared/bucket.ts"), undefined);
});

Deno.test("layers: what is refused, and why", () => {
  match(objection("lib/build/engine.ts", "lib/store/content.ts")!, /lib\/build may import/);
  match(objection("lib/base/log.ts", "lib/api/problem.ts")!, /may import nothing/);
  match(objection("lib/client/client.ts", "lib/server/server.ts")!, /lib\/client may import/);
  match(objection("lib/server/server.ts", "backends/store/fs.ts")!, /never imports backends/);
  match(objection("backends/deploy/bare/mod.ts", "backends/deploy/podman/mod.ts")!, /sibling/);
  match(objection("backends/store/shared/store.ts", "backends/store/s3/bucket.ts")!, /sibling/);
  match(objection("backends/store/fs.ts", "lib/build/engine.ts")!, /backends\/store may import/);
  match(objection("lib/newcomer/x.ts", "lib/base/log.ts")!, /no row/);
  ok(objection("lib/base/log.ts", "main.ts"));
});

Deno.test("layers: what a start loads of node's, by whatever way", () => {
  const module = (specifier: string, ...code: string[]) => ({
    specifier,
    dependencies: code.map((name) => ({ code: { specifier: name } })),
  });
  const graph: Graph = {
    modules: [
      module("start", "a", "b"),
      module("a", "c"),
      module("b", "a", "start"),
      module("c", "node:path"),
      { specifier: "lazy", dependencies: [{ code: { specifier: "c" }, isDynamic: true }] },
      { specifier: "types", dependencies: [{ type: { specifier: "c" } }] },
    ],
  };
  deepEqual(nodeLoads(graph, "start"), [["start", "a", "c", "node:path"]]);
  deepEqual(nodeLoads(graph, "lazy"), []);
  deepEqual(nodeLoads(graph, "types"), []);
});

Deno.test("layers: a circle of imports is named from where it begins", () => {
  const imports = new Map([["a", ["b", "c"]], ["b", ["c"]], ["c", ["d"]]]);
  equal(circle(imports), undefined);
  deepEqual(circle(new Map([...imports, ["d", ["b"]]])), ["b", "c", "d", "b"]);
});
