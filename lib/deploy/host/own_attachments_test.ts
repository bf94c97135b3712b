import assert from "node:assert/strict";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { silent } from "../../base/log.ts";
import { WorkloadNamespaces } from "../namespaces.ts";
import type { InstanceParts } from "./instance_parts.ts";
import { OwnAttachments } from "./own_attachments.ts";
import type { MadeRecord } from "./record.ts";

Deno.test("what cannot run beside a workload fails its start, and not its taking over", async () => {
  const namespaces = new WorkloadNamespaces(() => assert.fail());
  const parts = {
    ...{ namespaces, log: silent },
    attachments: { path: () => "/netns/web" },
  } as unknown as InstanceParts;
  const made = { key: "web-0-a", replica: 0, choice: { kind: "bridges", networks: [] } };
  const spec = { name: "web" } as DeploySpec;
  const own = new OwnAttachments(parts, made as unknown as MadeRecord, { networks: [] }, spec);
  const entered: string[] = [];
  namespaces.attend("web", ({ instance, path }) => {
    entered.push(`${instance} ${path}`);
    throw new Error("the port is taken");
  });
  await assert.rejects(own.enter(), /the port is taken/);
  await own.enterLate();
  assert.deepEqual(entered, ["web-0 /netns/web", "web-0 /netns/web"]);
});
