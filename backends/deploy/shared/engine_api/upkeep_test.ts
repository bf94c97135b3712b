import assert from "node:assert/strict";
import { silent } from "../../../../lib/base/log.ts";
import { type ScriptedCall, scriptedDaemon } from "../../../../lib/docker/testing.ts";
import type { ImageResolver } from "../../../../lib/oci/resolver.ts";
import { DOCKERHOST_FIELDS } from "../../dockerhost/fields.ts";
import { DOCKER } from "../../dockerhost/open.ts";
import { openDockerBackend } from "./docker_engine.ts";

const LEFT = {
  Id: "left",
  State: { Status: "exited", Running: false, StartedAt: "", FinishedAt: "" },
  Config: { Labels: { "svc.server": "s", "svc.deployment": "app", "svc.replica": "0" } },
  HostConfig: { NetworkMode: "bridge" },
  NetworkSettings: {},
};

const CREATED = JSON.stringify({
  Type: "container",
  Action: "create",
  Actor: { ID: "left", Attributes: LEFT.Config.Labels },
  time: 1,
});

/**
 * A daemon with a container that no deployment has and a network that nobody is on. `late`: the container comes
 * once the server has looked what there is.
 */
async function withLeftovers(
  removal: (call: ScriptedCall) => Promise<void>,
  run: () => Promise<void>,
  late = false,
): Promise<void> {
  const looked = Promise.withResolvers<void>();
  const folder = await Deno.makeTempDir({ prefix: "svc-upkeep-" });
  try {
    await using daemon = await scriptedDaemon(async (call) => {
      if (call.line.startsWith("DELETE ")) await removal(call);
      else if (/\/events/.test(call.line)) {
        await call.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        if (late) {
          await looked.promise;
          await call.write(`${(CREATED.length + 1).toString(16)}\r\n${CREATED}\n\r\n`);
        }
        while (await call.read());
      } else if (/\/containers\/left\/json/.test(call.line)) await call.json(LEFT);
      else if (/\/containers\/json/.test(call.line)) {
        await call.json(late ? [] : [{ Id: "left" }]);
      } else if (/\/networks/.test(call.line)) {
        await call.json([{ Id: "n1", Name: "alone" }]);
        // Networks are the last that it looks at.
        looked.resolve();
      } else await call.json({});
    });
    await using _backend = await openDockerBackend({
      ...{ client: daemon.client, behaviour: DOCKER, server: "s", folder },
      config: { allowBindSources: [], allowPrivileged: [], pidsLimit: 0 },
      fields: DOCKERHOST_FIELDS,
      images: {} as ImageResolver,
      log: silent,
    });
    await run();
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test({
  name: "what the engine refuses to remove, at once and later, is not forgotten",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const gone = Promise.withResolvers<void>();
    const idle = Promise.withResolvers<void>();
    let [containers, networks] = [0, 0];
    await withLeftovers(async (call) => {
      if (call.line.includes("/networks/")) {
        if (++networks === 1) return await call.json({ message: "has active endpoints" }, 403);
        await call.write("HTTP/1.1 204 X\r\n\r\n");
        return idle.resolve();
      }
      // More often than is tried at once.
      if (++containers <= 12) return await call.json({ message: "container state improper" }, 500);
      await call.write("HTTP/1.1 204 X\r\n\r\n");
      gone.resolve();
    }, async () => {
      await Promise.all([gone.promise, idle.promise]);
    });
    assert.equal(containers, 13);
    assert.ok(networks >= 2);
  },
});

Deno.test({
  name: "what the engine was still making for a server that was killed goes too",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const gone = Promise.withResolvers<void>();
    await withLeftovers(
      async (call) => {
        await call.write("HTTP/1.1 204 X\r\n\r\n");
        if (call.line.includes("/containers/left")) gone.resolve();
      },
      () => gone.promise,
      true,
    );
  },
});
