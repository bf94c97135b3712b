/** Settings of a workload on the bare backend, as the workload finds them. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { removeTree } from "../../lib/base/fs.ts";
import { eventually } from "../waits.ts";
import type { OwnTest } from "./deploy_suite.ts";
import type { HostUnderTest } from "./host_backend.ts";
import { execute, lines, quickSpec } from "./deploy_tools.ts";

export function bareSettings(
  test: OwnTest,
  under: HostUnderTest,
): void {
  const { backend, image, dataDir } = under;
  const withName = (title: string, name: string, fn: (name: string) => Promise<void>) =>
    test(title, async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    });
  const see = async (name: string, script: string, more: { user?: string } = {}) => {
    const command = ["sh", "-c", script];
    const { stdout, stderr } = await execute(backend(), name, { command, ...more });
    return (stdout + stderr).trim();
  };

  withName("the first deployment of a data directory may name a network", "first", async (name) => {
    await under.reopen(() => removeTree(join(dataDir, "bare")));
    await backend().apply(quickSpec(name, image, { networks: ["front"] }));
  });

  withName("of two networks the one of higher priority leads out", "prior", async (name) => {
    const subnet = async () => {
      const [{ ip }] = (await backend().status(name))!.instances;
      return ip!.replace(/\.\d+$/, "");
    };
    await backend().apply(quickSpec(name, image, { networks: ["back"] }));
    const back = await subnet();
    const networks = ["front", { name: "back", priority: 5 }];
    await backend().apply(quickSpec(name, image, { networks }));
    assert.equal(await subnet(), back);
    assert.match(await see(name, "busybox ip route"), new RegExp(`default via ${back}\\.1 `));
  });

  withName("addresses and subnets that it asks for are its own", "fixed", async (name) => {
    const subnet = `${under.subnetBase}.77.0/24`;
    const [ip, mac] = [`${under.subnetBase}.77.9`, "02:00:5e:10:00:09"];
    const fixed = (more: Record<string, unknown> = {}) => ({
      networks: [{ name: "front", subnet, ip, mac, ...more }],
    });
    const has = async () => {
      const text = await see(name, "ip addr show eth0");
      assert.match(text, new RegExp(`inet ${ip.replaceAll(".", "\\.")}/24 `));
      assert.ok(text.includes(mac), text);
    };
    const { deployment } = await backend().apply(quickSpec(name, image, fixed()));
    assert.deepEqual(deployment.warnings, []);
    assert.equal(deployment.instances[0].ip, ip);
    await has();
    // Its successor has to have them, so it goes first; and it is back with them where that one fails.
    await backend().apply(quickSpec(name, image, { ...fixed(), env: { CHANGED: "1" } }));
    await has();
    const { pid } = (await backend().status(name))!.instances[0];
    const broken = quickSpec(name, image, { ...fixed(), command: ["sh", "-c", "exit 1"] });
    await assert.rejects(backend().apply(broken), { code: "deploy_failed" });
    assert.notEqual((await backend().status(name))!.instances[0].pid, pid, "it has been stopped");
    await has();
    const other = (more: Record<string, unknown>) =>
      backend().apply(quickSpec("other", image, more));
    try {
      for (const address of [{ ip, mac: undefined }, { mac, ip: undefined }]) {
        await assert.rejects(other(fixed(address)), {
          code: "conflict",
          message: /another deployment has it/,
        });
      }
      // What cannot be had is told, and the deployment is made.
      const { deployment: { warnings } } = await other({
        networks: [{
          name: "front",
          subnet: "172.30.0.0/24",
          ip: "172.30.0.9",
          mac: "01:00:5e:00:00:01",
        }],
      });
      assert.deepEqual(warnings.map((line) => line.split(":")[0]), [
        "networks[0].subnet",
        "networks[0].ip",
        "networks[0].mac",
      ]);
      // An address that was given out is somebody's.
      const [{ ip: given }] = (await backend().status("other"))!.instances;
      await backend().delete(name);
      await assert.rejects(
        backend().apply(quickSpec(name, image, fixed({ ip: given, mac: undefined }))),
        { code: "conflict", message: new RegExp(`its address ${given} is in use`) },
      );
      assert.equal(await backend().status(name), undefined);
    } finally {
      await backend().delete("other");
    }
  });

  withName("processes are counted, memory is limited with its swap", "limits", async (name) => {
    const resources = { memoryLimit: "64Mi" };
    await backend().apply(quickSpec(name, image, { resources }));
    const [{ pid }] = (await backend().status(name))!.instances;
    const groups = await Deno.readTextFile(`/proc/${pid}/cgroup`);
    const limit = async (controller: string, one: string, two: string) => {
      const line = new RegExp(`^\\d+:(?:[\\w,]*\\b${controller}\\b[\\w,]*|):(.*)$`, "m").exec(
        groups,
      )!;
      const text = await Deno.readTextFile(`/sys/fs/cgroup/${controller}${line[1]}/${one}`).catch(
        () => Deno.readTextFile(`/sys/fs/cgroup${line[1]}/${two}`),
      );
      return Number(text);
    };
    assert.equal(await limit("pids", "pids.max", "pids.max"), 99);
    // Version 1 has the sum, version 2 the swap alone.
    const swap = await limit("memory", "memory.memsw.limit_in_bytes", "memory.swap.max");
    assert.ok([64, 128].includes(swap / 1024 ** 2), String(swap));
  });

  withName("numbers of 64 bits survive the start, exec and health checks", "wide", async (name) => {
    const env = { WIDE: "x:9007199254740991" };
    const healthcheck = { test: "true", interval: "1h" };
    await backend().apply(quickSpec(name, image, { ulimits: { core: -1 }, env, healthcheck }));
    assert.equal(await see(name, "echo $WIDE; ulimit -Hc"), `${env.WIDE}\nunlimited`);
  });

  withName(
    "read-only means the files that svc writes too; tmpfs runs nothing",
    "sealed",
    async (name) => {
      const tmpfs = ["/scratch", "/tools:exec,size=1m"];
      await backend().apply(quickSpec(name, image, { readOnly: true, tmpfs }));
      for (const file of ["hosts", "resolv.conf", "hostname"]) {
        assert.match(await see(name, `echo x >> /etc/${file}`), /Read-only/, file);
      }
      const options = (path: string) => see(name, `grep " ${path} " /proc/self/mounts`);
      assert.match(await options("/scratch"), /nosuid,nodev,noexec/);
      assert.doesNotMatch(await options("/tools"), /noexec/);
    },
  );

  withName("its own group is one of the supplementary ones", "groups", async (name) => {
    await backend().apply(quickSpec(name, image, { user: "1000:2000", groupAdd: [3000] }));
    assert.equal(await see(name, "grep ^Groups: /proc/1/status | xargs"), "Groups: 2000 3000");
    const own = "grep ^Groups: /proc/self/status | xargs";
    assert.equal(await see(name, own, { user: "7:8" }), "Groups: 8 3000");
  });

  withName(
    "real-time signals stop it; one that is unknown is no way to stay",
    "signals",
    async (name) => {
      const script = "trap 'exit 7' RTMIN+3; echo ready; while :; do sleep 0.05; done";
      const command = ["busybox", "sh", "-c", script.replace("RTMIN+3", "37")];
      await backend().apply(
        quickSpec(name, image, { command, stopSignal: "sigrtmin+3", stopGracePeriod: "6s" }),
      );
      await eventually("it listens", async () => (await lines(backend(), name)).includes("ready"));
      await backend().power(name, "stop");
      assert.equal((await backend().status(name))!.instances[0].exitCode, 7);
      await backend().power(name, "start");
      // As an older version wrote it down.
      await under.reopen(async () => {
        const record = join(dataDir, "bare/deployments", `${name}.json`);
        const text = await Deno.readTextFile(record);
        await Deno.writeTextFile(
          record,
          text.replace('"stopSignal":"37"', '"stopSignal":"SIGNOPE"'),
        );
      });
      await backend().power(name, "stop");
      await backend().power(name, "start");
      assert.equal(await backend().delete(name), true);
    },
  );

  withName("a volume of the image lives as long as its instance", "state", async (name) => {
    const kept = () => see(name, "grep -c ' /var/state ' /proc/self/mounts; cat /var/state/*");
    await backend().apply(quickSpec(name, image));
    assert.equal(await kept(), "1\nfrom the image");
    await see(name, "echo mine > /var/state/own");
    await backend().power(name, "restart");
    assert.equal(await kept(), "1\nmine\nfrom the image");
    await backend().apply(quickSpec(name, image, { env: { CHANGED: "1" } }));
    assert.equal(await kept(), "1\nfrom the image");
    const tmpfs = ["/var/state/"];
    await backend().apply(quickSpec(name, image, { tmpfs }));
    assert.equal(await see(name, "ls -A /var/state"), "", "what the spec mounts there wins");
  });

  withName("an alias is never another deployment's name", "alias", async (name) => {
    const on = (...aliases: string[]) => ({ networks: [{ name: "front", aliases }] });
    await backend().apply(quickSpec(name, image, on("db")));
    try {
      await backend().apply(quickSpec("db", image, on()));
      const [{ ip }] = (await backend().status("db"))!.instances;
      assert.match(await see(name, "cat /etc/hosts"), new RegExp(`^${ip}\tdb db-0$`, "m"));
      assert.doesNotMatch(await see("db", "cat /etc/hosts"), new RegExp(`${name}-0 .*db`));
      await assert.rejects(backend().apply(quickSpec(name, image, on("db", "db-0"))), {
        code: "conflict",
      });
    } finally {
      await backend().delete("db");
    }
  });

  withName("an instance that falls ill says why in its status", "falls", async (name) => {
    const healthcheck = { test: "echo gone; test ! -e /tmp/ill", interval: "50ms", retries: 1 };
    await backend().apply(quickSpec(name, image, { healthcheck }));
    await see(name, "touch /tmp/ill");
    const instance = async () => (await backend().status(name))!.instances[0];
    await eventually("unhealthy", async () => (await instance()).state === "unhealthy");
    assert.equal(
      (await instance()).message,
      "its last health check exited with code 1 and printed this:\n  gone",
    );
  });

  withName("the error of an unhealthy instance says what the probe did", "ill", async (name) => {
    const test = "echo no database; exit 4";
    const healthcheck = { test, interval: "50ms", retries: 1 };
    await assert.rejects(backend().apply(quickSpec(name, image, { healthcheck })), {
      code: "deploy_failed",
      message:
        /is unhealthy: its last health check exited with code 4 and printed this:\n {2}no database/,
    });
  });
}
