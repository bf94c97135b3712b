import assert from "node:assert/strict";
import { join } from "node:path";
import { silent } from "../../base/log.ts";
import { validateDeploySpec } from "../../api/deploy_spec_parse.ts";
import { ServerCaretakers } from "../../server/caretakers/caretakers.ts";
import { AGENTS, HostCompanions } from "./companions.ts";
import type { ContainerEngine } from "./engine.ts";

const spec = (more: Record<string, unknown> = {}) =>
  validateDeploySpec({ name: "web", image: "app:1", ...more });

/** With an engine that only tells what is asked of it. */
async function made({ always = true, named = true } = {}) {
  const folder = await Deno.makeTempDir();
  const asked: string[] = [];
  const engine = {
    exits: { unwatch: () => {} },
    delete: (key: string) => Promise.resolve(void asked.push(`delete ${key}`)),
  } as unknown as ContainerEngine;
  const companions = new HostCompanions({
    ...{ engine, always, variable: "SVC_X_REMOTE", log: silent },
    caretakers: new ServerCaretakers({
      url: "http://10.0.0.1:5000",
      ...named && { image: "svc-agent:1" },
    }),
    images: { resolve: () => Promise.reject(new Error("nobody asks for it")) },
    paths: { instances: join(folder, "instances"), companions: join(folder, "companions") },
  });
  return {
    ...{ folder, asked, companions },
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

Deno.test("host companions: their roles, and what they would not work beside", async () => {
  await using on = await made();
  const { companions } = on;
  assert.deepEqual(companions.rolesOf(spec(), {}), {
    ...{ portForward: {}, agentRelay: { folder: AGENTS } },
  });
  const mount = { mounts: [] };
  assert.deepEqual(companions.rolesOf(spec(), { companion: { roles: { mount } } })?.mount, mount);
  for (
    const [one, attachments, what] of [
      [
        spec(),
        { egress: { mode: "proxy", routes: ["deny"] } },
        /with egress mode proxy: SVC_X_REMOTE/,
      ],
      [spec(), { egress: { mode: "transparent", routes: [] } }, /with egress mode transparent: /],
      [spec({ networks: ["none"] }), {}, /with the network none: SVC_X_REMOTE/],
    ] as const
  ) {
    assert.throws(() => companions.rolesOf(one, attachments), {
      code: "unsupported",
      message: what,
    });
  }
  await using without = await made({ named: false });
  assert.throws(() => without.companions.rolesOf(spec(), {}), {
    code: "prerequisite_missing",
    message: /Cannot deploy web: .*SVC_AGENT_IMAGE/,
  });
});

Deno.test("host companions: those of a server before, which made them, end where they are off", async () => {
  await using off = await made({ always: false, named: false });
  const { companions, folder, asked } = off;
  assert.equal(companions.rolesOf(spec(), {}), undefined);
  assert.deepEqual(companions.abilities(() => assert.fail()), {
    companionVariable: "SVC_X_REMOTE",
  });
  await Deno.mkdir(join(folder, "instances", "web-0-a-companion"), { recursive: true });
  await companions.begin({
    ...{ key: "web-0-a", id: "web-0", deployment: "web", replica: 0, network: "host" },
    roles: { portForward: {} },
  });
  assert.deepEqual(asked, ["delete web-0-a-companion"]);
});
