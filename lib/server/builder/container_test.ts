import assert from "node:assert/strict";
import { silent } from "../../base/log.ts";
import { type ScriptedCall, scriptedDaemon } from "../../docker/testing.ts";
import { EngineBuilder } from "./container.ts";

const IMAGE = `sha256:${"a".repeat(64)}`;

interface Made {
  Image: string;
  Labels: Record<string, string>;
  Env: string[];
}

/** An engine in which containers can be made, but not started. */
function engineWith(
  { labels = { "svc.builder": "cache" } as Record<string, string>, state = {}, security = [""] } =
    {},
) {
  const made: Made[] = [];
  const removed: string[] = [];
  /** The container that is there. */
  let there: { id: string; config: Made } | undefined;
  const answer = async (call: ScriptedCall) => {
    const [method, url] = call.line.split(" ");
    const path = url.replace(/^\/v[\d.]+/, "").split("?")[0];
    const sent = call.body.length > 0 && JSON.parse(new TextDecoder().decode(call.body));
    if (path === "/info") return await call.json({ SecurityOptions: security });
    if (path === "/volumes/create") return await call.json({ Name: sent.Name, Labels: labels });
    if (path === "/containers/create") {
      made.push(sent);
      there = { id: `c${made.length}`, config: sent };
      return await call.json({ Id: there.id }, 201);
    }
    if (path.endsWith("/start")) return await call.json({ message: "it does not start" }, 500);
    if (method === "DELETE") {
      removed.push(path.split("/").at(-1)!);
      there = undefined;
      return await call.json({});
    }
    if (path.endsWith("/json") && there) {
      const { id, config: { Env, Labels } } = there;
      return await call.json({
        Id: id,
        State: { Running: false, ExitCode: 1, ...state },
        Config: { Env, Labels },
      });
    }
    await call.json({ message: "no such container" }, 404);
  };
  return { answer, made, removed };
}

async function startTwice(engine: ReturnType<typeof engineWith>): Promise<void> {
  await using daemon = await scriptedDaemon(engine.answer);
  const builder = new EngineBuilder({
    engine: daemon.client,
    image: () => Promise.resolve(IMAGE),
    place: () => Promise.resolve({ network: "host", mode: { kind: "storage" } }),
    env: {},
    log: silent,
  });
  for (let round = 0; round < 2; round++) {
    await assert.rejects(builder.start(), /it does not start/);
  }
}

Deno.test("builder: a rootless engine is refused before anything is made", async () => {
  const engine = engineWith({ security: ["name=seccomp", "name=rootless"] });
  await using daemon = await scriptedDaemon(engine.answer);
  const builder = new EngineBuilder({
    engine: daemon.client,
    image: () => assert.fail("an image is made"),
    place: () => Promise.resolve({ network: "host", mode: { kind: "storage" } }),
    env: {},
    log: silent,
  });
  const told = {
    code: "unsupported",
    message: /Cannot start a builder: .*rootless, could give RUN no network/,
    help: /--rootless/,
  };
  await assert.rejects(builder.ready(), told);
  await assert.rejects(builder.start(), told);
  assert.deepEqual(engine.made, []);
});

const tokenOf = ({ Env }: Made) => Env.find((text) => text.startsWith("SVC_AUTH_TOKEN="));

Deno.test("builder: its image is named by its id; one that ended is made anew, with another token", async () => {
  const engine = engineWith({ state: { Status: "exited" } });
  await startTwice(engine);
  assert.deepEqual(engine.made.map(({ Image }) => Image), [IMAGE, IMAGE]);
  assert.deepEqual(engine.removed, ["c1"]);
  assert.notEqual(tokenOf(engine.made[0]), tokenOf(engine.made[1]));
});

Deno.test("builder: one that was never started is another server's, or can be: it is started", async () => {
  const engine = engineWith({ state: { Status: "created" } });
  await startTwice(engine);
  assert.deepEqual([engine.made.length, engine.removed], [1, []]);
});

Deno.test("builder: a volume that no server made for it is refused", async () => {
  const engine = engineWith({ labels: { "svc.server": "/data" } });
  await using daemon = await scriptedDaemon(engine.answer);
  const builder = new EngineBuilder({
    engine: daemon.client,
    image: () => Promise.resolve(IMAGE),
    place: () => Promise.resolve({ network: "host", mode: { kind: "storage" } }),
    env: {},
    log: silent,
  });
  await assert.rejects(builder.start(), {
    code: "conflict",
    message: /volume svc-builder-cache: no svc server made it/,
  });
  assert.deepEqual(engine.made, []);
});
