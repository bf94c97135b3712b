import assert from "node:assert/strict";
import { join } from "node:path";
import { validateDeploySpec } from "../../../../lib/api/deploy_spec_parse.ts";
import { silent } from "../../../../lib/base/log.ts";
import { scriptedDaemon } from "../../../../lib/docker/testing.ts";
import type { ImageResolver } from "../../../../lib/oci/resolver.ts";
import { DOCKERHOST_FIELDS } from "../../dockerhost/fields.ts";
import { DOCKER } from "../../dockerhost/open.ts";
import { openDockerBackend } from "./docker_engine.ts";

const mounting = (source: string) =>
  validateDeploySpec({ name: "app", image: "i:1", mounts: [{ source, target: "/mnt" }] });

/** A deployment that may write to `held`, on a daemon that changes nothing. */
async function withDeployment(
  allowed: (folder: string) => string[],
  run: (
    parts: {
      backend: Awaited<ReturnType<typeof openDockerBackend>>;
      held: string;
      lines: string[];
    },
  ) => Promise<void>,
): Promise<void> {
  const root = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-backend-binds-" }));
  const held = join(root, "held");
  const container = {
    Id: "c1",
    State: { Status: "running", Running: true, StartedAt: "", FinishedAt: "" },
    Config: { Labels: { "svc.server": "s", "svc.deployment": "app", "svc.replica": "0" } },
    HostConfig: { NetworkMode: "bridge" },
    NetworkSettings: {},
    Mounts: [{ Type: "bind", Source: held, RW: true }],
  };
  try {
    await Deno.mkdir(join(held, "inner"), { recursive: true });
    await Deno.mkdir(join(root, "deployments"));
    const record = {
      ...{ version: 1, name: "app", spec: mounting(held), hash: "h", image: "i:1", warnings: [] },
      ...{
        imageDigest: "",
        stopped: false,
        deleting: false,
        createdAt: "",
        updatedAt: "",
        ports: [],
      },
      instances: [{ container: "c1", key: "app-0", replica: 0, hash: "h" }],
    };
    await Deno.writeTextFile(join(root, "deployments/app.json"), JSON.stringify(record));
    await using daemon = await scriptedDaemon(async (call) => {
      if (/\/events/.test(call.line)) {
        await call.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        while (await call.read());
      } else if (/\/containers\/c1\/json/.test(call.line)) await call.json(container);
      else if (/\/containers\/json/.test(call.line)) await call.json([{ Id: "c1" }]);
      else if (/\/info/.test(call.line)) await call.json({});
      else if (/\/networks/.test(call.line)) await call.json([]);
      else await call.json({ message: "no such thing" }, 404);
    });
    await using backend = await openDockerBackend({
      ...{ client: daemon.client, behaviour: DOCKER, server: "s", folder: root },
      config: { allowBindSources: allowed(held), allowPrivileged: [], pidsLimit: 0 },
      fields: DOCKERHOST_FIELDS,
      images: {} as ImageResolver,
      log: silent,
    });
    await run({ backend, held, lines: daemon.lines });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

const linux = { ignore: Deno.build.os !== "linux" };

Deno.test({
  name: "a deployment is not replaced by one whose source its own containers may put elsewhere",
  ...linux,
  fn: () =>
    withDeployment((held) => [held, join(held, "inner")], async ({ backend, held }) => {
      await assert.rejects(backend.apply(mounting(join(held, "inner"))), {
        code: "conflict",
        message: /a container of app may write to/,
      });
      // The same source is not in its own way: it comes as far as its image, which nobody can find here.
      await assert.rejects(backend.apply(mounting(held)), (error: Error & { code?: string }) =>
        !["conflict", "denied"].includes(error.code ?? ""));
    }),
});

Deno.test({
  name: "what may not be mounted any more is not started again, and is not stopped for it",
  ...linux,
  fn: () =>
    withDeployment(() => [], async ({ backend, lines }) => {
      for (const action of ["start", "restart"] as const) {
        await assert.rejects(backend.power("app", action), { code: "denied" });
      }
      assert.ok(!lines.some((line) => line.startsWith("POST ")), lines.join("\n"));
    }),
});
