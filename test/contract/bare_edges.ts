/** The host engine at its edges: the resolver of a network, refused system calls, a full disk. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { run } from "../../lib/base/process.ts";
import type { OwnTest } from "./deploy_suite.ts";
import type { HostUnderTest } from "./host_backend.ts";
import { execute, quickSpec } from "./deploy_tools.ts";

export function bareEdges(
  test: OwnTest,
  under: HostUnderTest,
): void {
  const { backend, image, dataDir } = under;
  const deployments = join(dataDir, under.engine, "deployments");
  const withName = (title: string, name: string, fn: (name: string) => Promise<void>) =>
    test(title, async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    });

  withName("a network's gateway answers for its containers", "named", async (name) => {
    const networks = [{ name: "front", internal: true }];
    await backend().apply(quickSpec(name, image, { networks }));
    const [{ ip }] = (await backend().status(name))!.instances;
    const gateway = ip!.replace(/\d+$/, "1");
    const see = async (...command: string[]) =>
      (await execute(backend(), name, { command })).stdout;
    const looked = async (host: string) => {
      const lines = (await see("busybox", "nslookup", "-type=a", host)).split("\n");
      const from = lines.findIndex((line) => line.startsWith("Name:"));
      return from < 0 ? [] : lines.slice(from).join(" ").match(/\d+\.\d+\.\d+\.\d+/g);
    };
    const conf = () => see("cat", "/etc/resolv.conf");
    const named = `nameserver ${gateway}\n`;
    assert.ok((await conf()).startsWith(named));
    assert.deepEqual(await looked(name), [ip]);
    assert.deepEqual(await looked("nowhere"), []);
    await under.reopen();
    assert.deepEqual(await looked(`${name}-0`), [ip], "after a restart");
    // Another resolver has the port.
    let other: Deno.TcpListener;
    await under.reopen(() => {
      other = Deno.listen({ hostname: gateway, port: 53 });
      return Promise.resolve();
    });
    assert.ok(!(await conf()).includes(named));
    assert.match(
      await see("busybox", "ping", "-c", "1", "-W", "9", `${name}-0`),
      /1 packets received/,
    );
    other!.close();
    await backend().apply(quickSpec(name, image, { networks, env: { CHANGED: "1" } }));
    assert.ok((await conf()).startsWith(named));
    assert.equal((await looked(name))!.length, 1);
  });

  withName(
    "what is exposed is published nowhere; a port without a host's is",
    "open",
    async (name) => {
      const expose = [{ container: 7070, protocol: "tcp" as const }];
      const ports = [{ container: 7071, protocol: "tcp" as const }];
      const { deployment } = await backend().apply(quickSpec(name, image, { ports, expose }));
      assert.deepEqual(deployment.ports.map(({ container }) => container), [7071]);
      assert.ok(deployment.ports[0].host > 0);
      assert.deepEqual(deployment.exposed, expose);
      assert.deepEqual(deployment.warnings, []);
    },
  );

  test("system calls that reach out are refused, unless it is privileged", async () => {
    await under.reopen(undefined, ["privileged"]);
    for (const privileged of [false, true]) {
      await backend().apply(quickSpec("calls", image, { privileged }));
      try {
        for (const command of [["unshare", "-m", "true"], ["mount", "-t", "tmpfs", "x", "/srv"]]) {
          const { code, stderr } = await execute(backend(), "calls", {
            command: ["busybox", ...command],
          });
          assert.equal(code === 0, privileged, `${command}: exit code ${code}: ${stderr}`);
        }
      } finally {
        await backend().delete("calls");
      }
    }
    await under.reopen();
  });

  withName(
    "on a full disk it can be stopped and removed, and is not restarted",
    "full",
    async (name) => {
      await backend().apply(quickSpec(name, image));
      const state = async () => (await backend().status(name))?.state;
      const record = join(deployments, `${name}.json`);
      // Room for no file.
      const full = ["-t", "tmpfs", "-o", "nr_inodes=1", "none", deployments];
      assert.equal((await run("mount", full)).code, 0);
      try {
        const refused = {
          code: "storage_full",
          message: /^Cannot put deployment full on record: /,
        };
        await assert.rejects(backend().power(name, "restart"), refused);
        assert.equal(await state(), "running");
        await assert.rejects(backend().power(name, "stop"), refused);
        assert.equal(await state(), "stopped");
        assert.equal(await backend().delete(name), true);
        assert.equal(await state(), undefined);
      } finally {
        await run("umount", [deployments]);
      }
      await Deno.remove(record);
    },
  );
}
