import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { createLogger } from "../base/log.ts";
import type { Deployments } from "../deploy/deployments.ts";
import { deployFacts } from "./deploy_facts.ts";
import { takeOver } from "./engines.ts";
import type { ServerHost } from "./host.ts";

const open = (more: Partial<Deployments>) => () =>
  Promise.resolve(
    { name: "engine", caps: { exec: undefined, mounts: true }, ...more } as Deployments,
  );

const gone = new SvcError("unavailable", "Cannot reach the engine", { help: "start it" });
const absent = open({ ready: () => Promise.reject(gone) });
const bare = () => Promise.resolve("other");

Deno.test("what a server says of its deployments: the engine, or what is missing and what would do instead", async () => {
  const about = () => Promise.resolve("Engine 1.2 at unix:///x");
  const found = await deployFacts({
    name: "engine",
    backend: open({ about, ready: () => Promise.resolve() }),
    otherwise: () => assert.fail("it is not needed"),
  });
  assert.equal(found.refused, undefined);
  assert.deepEqual(found.info, {
    backend: "engine",
    available: true,
    engine: "Engine 1.2 at unix:///x",
    caps: ["mounts"],
  });
  const alone = await deployFacts({ name: "engine", backend: absent });
  assert.equal(alone.info.reason, "Cannot reach the engine; start it");
  const { info, refused } = await deployFacts({ name: "engine", backend: absent, otherwise: bare });
  assert.equal(info.available, false);
  assert.equal(
    info.reason,
    "Cannot reach the engine; start it; this host has what SVC_DEPLOY_BACKEND=other needs",
  );
  assert.equal(`${refused!.message}; ${refused!.help}`, info.reason);
});

Deno.test("a server that starts says the same in its log", async () => {
  const lines: { level: string; msg: string; help?: string }[] = [];
  const log = createLogger({
    level: "info",
    format: "json",
    write: (line: string) => void lines.push(JSON.parse(line)),
  });
  const module = { takesOver: true, open: () => assert.fail("opened by its caller") };
  const chosen = {
    name: "engine",
    inBuild: true,
    load: () => Promise.resolve(module),
    otherwise: bare,
  };
  const start = (backend: () => Promise<Deployments>) =>
    takeOver(chosen, backend, { host: {} as ServerHost, log });
  await start(absent);
  await start(open({ about: () => Promise.resolve("Engine 1.2 at unix:///x") }));
  assert.deepEqual(lines.map(({ level, msg }) => [level, msg]), [
    ["warn", "cannot deploy yet"],
    ["info", "deployments run on Engine 1.2 at unix:///x"],
  ]);
  assert.match(lines[0].help!, /^start it; this host has what SVC_DEPLOY_BACKEND=other needs$/);
  await assert.rejects(start(() => Promise.reject(new TypeError("a defect"))), /a defect/);
});
