/** What no backend does unless its server permits it, however the workload comes to be started. */
import assert from "node:assert/strict";
import { PRIVILEGED_KINDS } from "../../lib/deploy/privileges.ts";
import type { DeployBackendUnderTest, Test } from "./deploy_suite.ts";
import { quickSpec, runs } from "./deploy_tools.ts";

const ASKED: [kind: string, fields: Record<string, unknown>][] = [
  ["privileged", { privileged: true }],
  ["pidMode", { pidMode: "host" }],
  ["ipcMode", { ipcMode: "host" }],
  ["networks", { networks: ["host"] }],
  ["devices", { devices: ["/dev/null:/dev/other"] }],
  ["capAdd", { capAdd: ["SYS_ADMIN"] }],
  ["securityOpt", { securityOpt: ["seccomp=unconfined"] }],
  ["sysctls", { sysctls: { "kernel.core_pattern": "core" } }],
  ["labels", { labels: { "traefik.enable": "true" } }],
];

export function deployPrivileges(test: Test, under: DeployBackendUnderTest): void {
  const { backend, image } = under;

  test("what amounts to root on the host is refused by default, by kind", [], async () => {
    try {
      for (const [kind, fields] of ASKED) {
        const words = JSON.stringify(fields);
        await assert.rejects(backend().apply(quickSpec("mighty", image, fields)), {
          code: "denied",
          detail: { kinds: [kind] },
          help: new RegExp(`SVC_ALLOW_PRIVILEGED=${kind} `),
        }, words);
      }
      assert.deepEqual(await backend().list(), []);
      // One that is there already is not changed into such a one.
      await backend().apply(quickSpec("mighty", image));
      await assert.rejects(backend().apply(quickSpec("mighty", image, { privileged: true })), {
        code: "denied",
      });
      assert.equal((await backend().status("mighty"))!.state, "running");
    } finally {
      await backend().delete("mighty");
    }
  });

  test(
    "what was made under a looser setting runs on, and is not started again",
    ["processes.host"],
    async () => {
      const denied = { code: "denied" };
      try {
        await under.reopen(undefined, PRIVILEGED_KINDS);
        const mighty = quickSpec("mighty", image, { capAdd: ["SYS_ADMIN"], pidMode: "host" });
        await backend().apply(mighty);
        await backend().apply(quickSpec("halted", image, { privileged: true }));
        await backend().power("halted", "stop");
        const before = await runs(backend(), "mighty");
        await under.reopen();
        assert.deepEqual(await runs(backend(), "mighty"), before);
        await assert.rejects(backend().apply(mighty), denied);
        await assert.rejects(backend().power("halted", "start"), denied);
        await assert.rejects(backend().power("mighty", "restart"), denied);
        assert.deepEqual(
          await runs(backend(), "mighty"),
          before,
          "a refused restart stops nothing",
        );
      } finally {
        await under.reopen();
        for (const name of ["mighty", "halted"]) await backend().delete(name);
      }
    },
  );
}
