/** SVC_BARE_SYSTEMD_CGROUP: the runtime's systemd cgroup driver. */
import assert from "node:assert/strict";
import { validateBareRuntime } from "../../backends/deploy/bare/preflight.ts";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { requireTools } from "../e2e/harness.ts";
import { eventually } from "../waits.ts";
import { bareFixture } from "./bare_fixture.ts";
import { quickSpec } from "./deploy_tools.ts";

const needs = requireTools({ root: true, commands: ["runc", "conmon", "iptables", "busybox"] });

/** As runc finds it out. */
const systemd = existsSync("/run/systemd/system");

Deno.test({
  name: `systemd's cgroups: a container is in a scope of its own${
    systemd ? "" : " (left out: no systemd runs on this host)"
  }`,
  ignore: needs.ignore || !systemd,
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async () => {
    await using fixture = await bareFixture({ systemdCgroup: true });
    await using backend = await fixture.open([]);
    const { deployment: { instances: [{ pid }] } } = await backend.apply(
      quickSpec("scoped", fixture.image),
    );
    const groups = await Deno.readTextFile(`/proc/${pid}/cgroup`);
    assert.match(groups, /\/system\.slice\/svc-scoped-0-[0-9a-f]+\.scope/);
    assert.equal(await backend.delete("scoped"), true);
  },
});

Deno.test({
  name: `systemd's cgroups: where no systemd runs the server's start says so${
    systemd ? " (left out: a systemd runs on this host)" : ""
  }`,
  ignore: needs.ignore || systemd,
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-systemd-" });
    try {
      const place = { folder, runDir: join(folder, "run") };
      await assert.rejects(validateBareRuntime({ runtime: "runc", systemdCgroup: true }, place), {
        code: "config_invalid",
        message: /systemd/,
        help: /SVC_BARE_SYSTEMD_CGROUP/,
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

/** Does all that runc does, without systemd, and writes down what it was asked for. */
const RECORDER = (calls: string) =>
  `#!/bin/sh
echo "$*" >> ${calls}
for arg; do shift; [ "$arg" = --systemd-cgroup ] || set -- "$@" "$arg"; done
for arg; do [ "$last" = --bundle ] && sed -i 's#"system.slice:svc:#"/svc/#' "$arg/config.json"; last=$arg; done
exec runc "$@"
`;

Deno.test({
  name: "systemd's cgroups: every call of the runtime asks for them, by a scope's name",
  ignore: needs.ignore,
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-systemd-" });
    const [runtime, calls] = [join(folder, "runc"), join(folder, "calls")];
    await Deno.writeTextFile(runtime, RECORDER(calls), { mode: 0o755 });
    await Deno.writeTextFile(calls, "");
    try {
      await using fixture = await bareFixture({ runtime, systemdCgroup: true });
      const backend = await fixture.open([]);
      try {
        await backend.apply(quickSpec("scoped", fixture.image));
        const before = (await backend.status("scoped"))!.instances[0].pid!;
        Deno.kill(before, "SIGKILL");
        await eventually("back", async () => {
          const { pid } = (await backend.status("scoped"))!.instances[0];
          return pid !== undefined && pid !== before;
        });
        await backend.delete("scoped");
      } finally {
        await backend[Symbol.asyncDispose]();
      }
      const all = (await Deno.readTextFile(calls)).trim().split("\n")
        .filter((call) => !call.includes("--version"));
      assert.ok(all.some((call) => call.includes(" create ")), all.join("\n"));
      for (const call of all) assert.match(call, /--systemd-cgroup/);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
