/** What the bare backend does beyond the contract: ports, mounts, limits, rotation, nothing left behind. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { readJson } from "../../lib/base/fs.ts";
import { run } from "../../lib/base/process.ts";
import { bridgeNetwork } from "../../lib/runtime/network.ts";
import { hostPaths } from "../../lib/deploy/host/paths.ts";
import { rotateLog } from "../../lib/deploy/host/log_file.ts";
import { reopenLog } from "../../backends/deploy/bare/conmon.ts";
import { freePort } from "../fixtures/free_port.ts";
import { eventually } from "../waits.ts";
import { execute, lines, quickSpec } from "./deploy_tools.ts";
import type { OwnTest } from "./deploy_suite.ts";
import type { HostUnderTest } from "./host_backend.ts";

async function get(port: number): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}/`, {
    headers: { connection: "close" },
    signal: AbortSignal.timeout(60_000),
  });
  return (await response.text()).trim();
}

/** Waits until the published port answers so: a server may be up before it listens. */
const answers = (port: number, text: string) =>
  eventually("an answer", async () => await get(port).catch(() => "") === text);

/** True where nothing accepts connections. */
const refuses = (port: number) =>
  Deno.connect({ hostname: "127.0.0.1", port }).then((conn) => {
    conn.close();
    return false;
  }, () => true);

/** Takes the rules of published ports away. */
async function dropPorts(chain: string): Promise<void> {
  const nat = (rule: string) => run("sh", ["-c", `iptables -w -t nat ${rule}`]);
  const lines = (await nat("-S")).stdout.split("\n");
  const jumps = lines.filter((line) => line.endsWith(` -j ${chain}`));
  const changes = [
    ...jumps.map((line) => line.replace("-A", "-D")),
    `-F ${chain}`,
    `-X ${chain}`,
  ];
  for (const change of changes) {
    const result = await nat(change);
    assert.equal(result.code, 0, result.stderr);
  }
}

const names = async (folder: string) =>
  (await Array.fromAsync(Deno.readDir(folder))).map((entry) => entry.name);

export function bareDetails(
  test: OwnTest,
  under: HostUnderTest,
): void {
  const { backend, image, dataDir, allowed } = under;
  const bare = (...parts: string[]) => join(dataDir, "bare", ...parts);
  const { portChain } = hostPaths("bare", dataDir);
  const withName = (title: string, name: string, fn: (name: string) => Promise<void>) =>
    test(title, async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    });

  withName(
    "published ports answer, through replacements without a gap, until stopped",
    "port",
    async (name) => {
      const port = freePort();
      const ports = [`127.0.0.1:${port}:8080`];
      const serve = (text: string) =>
        quickSpec(name, image, {
          ports,
          command: ["sh", "-c", `echo ${text} > /srv/index.html; exec httpd -f -p 8080 -h /srv`],
          // It takes the other's place when it listens, and no sooner.
          healthcheck: {
            test: "wget -q -O - http://127.0.0.1:8080/",
            interval: "1h",
            startInterval: "100ms",
            timeout: "60s",
          },
        });
      await backend().apply(serve("first"));
      await answers(port, "first");
      await assert.rejects(backend().apply(quickSpec("other", image, { ports })), {
        code: "port_in_use",
        message: `Cannot publish 127.0.0.1:${port}: address in use by deployment port`,
      });
      let failures = 0;
      let over = false;
      const asking = (async () => {
        while (!over) {
          // One that an old instance was about to answer may end with it; the next has to be answered.
          await get(port).catch(() => get(port)).catch(() => failures++);
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      })();
      await backend().apply(serve("second"));
      assert.equal(await get(port), "second");
      over = true;
      await asking;
      assert.equal(failures, 0);
      await backend().power(name, "stop");
      assert.ok(await refuses(port));
      await backend().power(name, "start");
      await answers(port, "second");
    },
  );

  withName(
    "a published port answers from the host and from every network",
    "ways",
    async (name) => {
      const port = freePort();
      await backend().apply(quickSpec(name, image, { ports: [`${port}:8080`] }));
      const [{ ip }] = (await backend().status(name))!.instances;
      // The bridge's address: one of the host's.
      const gateway = ip!.replace(/\d+$/, "1");
      const answer = (url: string) =>
        fetch(url, { signal: AbortSignal.timeout(60_000) })
          .then((response) => response.text(), () => "");
      for (const host of ["127.0.0.1", gateway]) {
        await eventually(
          `an answer at ${host}`,
          async () => (await answer(`http://${host}:${port}/`)).trim() === "hello from busybox",
        );
      }
      const fetched = async (from: string) => {
        const command = ["wget", "-q", "-O", "-", `http://${gateway}:${port}/`];
        const { stdout, stderr, code } = await execute(backend(), from, { command });
        return code === 0 ? stdout.trim() : `exit code ${code}: ${stderr}`;
      };
      assert.equal(await fetched(name), "hello from busybox", "itself");
      for (const [other, networks] of [["same", []], ["apart", ["elsewhere"]]] as const) {
        const peer = `${name}-${other}`;
        try {
          await backend().apply(quickSpec(peer, image, { networks, command: ["sleep", "1000"] }));
          assert.equal(await fetched(peer), "hello from busybox", other);
        } finally {
          await backend().delete(peer);
        }
      }
    },
  );

  withName("a port that a process has is refused by address", "busy", async (name) => {
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr;
    await assert.rejects(
      backend().apply(quickSpec(name, image, { ports: [`127.0.0.1:${port}:80`] })),
      { code: "port_in_use", message: `Cannot publish 127.0.0.1:${port}: address in use` },
    );
    assert.equal(await backend().status(name), undefined);
  });

  withName("limits, user, mounts and flags are what the container sees", "sees", async (name) => {
    await Deno.writeTextFile(join(allowed, "file"), "from the host\n");
    await backend().apply(quickSpec(name, image, {
      command: ["sleep", "1000"],
      resources: { memoryLimit: "64Mi", cpuLimit: 0.5 },
      user: "user",
      readOnly: true,
      mounts: [`${allowed}:/mnt/host:ro`],
      volumes: [{ name: "data", target: "/srv", labels: { team: "shop" } }],
      tmpfs: ["/tmp:size=1m,mode=1777"],
      ulimits: ["nofile=128:256"],
      extraHosts: ["db:192.0.2.7"],
      dnsServers: ["192.0.2.53"],
      hostname: "seer",
      sysctls: { "net.core.somaxconn": "77" },
    }));
    const see = async (script: string) =>
      (await execute(backend(), name, { command: ["sh", "-c", script] })).stdout.trim();
    assert.equal(await see("id -u; hostname"), "1000\nseer");
    // Of its own process: runc before 1.1.13 lets go of this limit for some of the commands it runs beside.
    assert.match(await see("cat /proc/1/limits"), /^Max open files +128 +256 /m);
    assert.equal(await see("cat /mnt/host/file"), "from the host");
    assert.equal(await see("touch /mnt/host/x /x 2>/dev/null || echo refused"), "refused");
    assert.equal(await see("touch /tmp/x && cat /srv/index.html"), "hello from busybox");
    assert.match(await see("cat /etc/hosts"), /192\.0\.2\.7\tdb/);
    assert.equal(await see("cat /etc/resolv.conf"), "nameserver 192.0.2.53");
    assert.equal(await see("cat /proc/sys/net/core/somaxconn"), "77");
    const [{ pid }] = (await backend().status(name))!.instances;
    const groups = await Deno.readTextFile(`/proc/${pid}/cgroup`);
    const path = /^\d+:(?:[\w,]*\bmemory\b[\w,]*|):(.*)$/m.exec(groups)![1];
    const v1 = `/sys/fs/cgroup/memory${path}/memory.limit_in_bytes`;
    const limit = await Deno.readTextFile(v1).catch(() =>
      Deno.readTextFile(`/sys/fs/cgroup${path}/memory.max`)
    );
    assert.equal(limit.trim(), String(64 * 1024 ** 2));
    await backend().delete(name);
    assert.deepEqual(await names(bare("volumes")), ["data"]);
    assert.deepEqual(await readJson(join(bare("volumes"), "data/labels.json")), { team: "shop" });
  });

  withName("rotation loses no line, and a reader follows through it", "rotate", async (name) => {
    const script = "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done; " +
      "while [ ! -e /tmp/end ]; do sleep 0.05; done; echo end";
    await backend().apply(quickSpec(name, image, { command: ["sh", "-c", script], restart: "no" }));
    const [log] = (await names(bare("logs"))).filter((file) => file.startsWith(`${name}-0`));
    const bundle = bare("instances", log.replace(/\.log$/, ""));
    const following = lines(backend(), name, { follow: true });
    await eventually("rotated", () => rotateLog(bare("logs", log), 1000, () => reopenLog(bundle)));
    await execute(backend(), name, { command: ["touch", "/tmp/end"] });
    const expected = [...Array.from({ length: 3000 }, (_, i) => String(i)), "end"];
    assert.deepEqual(await following, expected);
    assert.deepEqual(await lines(backend(), name), expected);
  });

  withName("a monitor that is killed does not hide its container's end", "orphan", async (name) => {
    await backend().apply(quickSpec(name, image, { restart: "no" }));
    const [instance] = (await names(bare("instances"))).filter((file) => file.startsWith(name));
    Deno.kill(
      Number(await Deno.readTextFile(bare("instances", instance, "conmon.pid"))),
      "SIGKILL",
    );
    Deno.kill((await backend().status(name))!.instances[0].pid!, "SIGKILL");
    await eventually("seen", async () => (await backend().status(name))!.state === "failed");
    assert.equal((await backend().status(name))!.instances[0].exitCode, 255);
  });

  withName(
    "after a reboot of the host it is brought up again, on its port",
    "boot",
    async (name) => {
      const port = freePort();
      const data = await backend().apply(
        quickSpec(name, image, { ports: [`127.0.0.1:${port}:8080`] }),
      );
      const [{ pid }] = data.deployment.instances;
      const text = await Deno.readTextFile(bare("deployments", `${name}.json`));
      const { key, endpoint }: { key: string; endpoint?: string } = JSON.parse(text).instances[0];
      const netns = endpoint ? bare("spares", endpoint) : bare("netns", key);
      await under.reopen(async () => {
        // What a reboot takes: processes, mounts, namespaces, rules.
        Deno.kill(pid!, "SIGKILL");
        await eventually("its end", async () => (await names(bare("exits"))).includes(key));
        await Deno.remove(bare("exits", key));
        for (const path of [netns, bare("instances", key, "rootfs")]) {
          assert.equal((await run("umount", ["--lazy", path])).code, 0);
        }
        await dropPorts(portChain);
      });
      await eventually("running", async () => (await backend().status(name))?.state === "running");
      await answers(port, "hello from busybox");
    },
  );

  withName(
    "one that made room when its server died is started again",
    "room",
    async (name) => {
      const spec = quickSpec(name, image, { restart: "no" });
      const { deployment: { instances: [{ pid }] } } = await backend().apply(spec);
      await under.reopen(async () => {
        const path = bare("deployments", `${name}.json`);
        const record = JSON.parse(await Deno.readTextFile(path));
        record.instances[0].phase = "yielding";
        await Deno.writeTextFile(path, JSON.stringify(record));
        Deno.kill(pid!, "SIGKILL");
        await eventually("its end", async () => (await names(bare("exits"))).length > 0);
      });
      const status = (await backend().status(name))!;
      assert.equal(status.state, "running");
      assert.notEqual(status.instances[0].pid, pid);
    },
  );

  withName(
    "a namespace made ahead is taken, and survives restarts with its taker",
    "ahead",
    async (name) => {
      const port = freePort();
      const spares = () => names(bare("spares")).catch(() => []);
      await backend().apply(quickSpec(`${name}-first`, image));
      try {
        await eventually("one is made ahead", async () => (await spares()).length === 1);
        const [spare] = await spares();
        await backend().apply(quickSpec(name, image, { ports: [`127.0.0.1:${port}:8080`] }));
        assert.ok(!(await names(bare("netns"))).some((file) => file.startsWith(`${name}-0`)));
        await answers(port, "hello from busybox");
        await eventually("another is made ahead", async () => (await spares()).length === 2);
        // Gone in an orderly end, or at the start after a crash: the taken one stays.
        await under.reopen();
        assert.deepEqual(await spares(), [spare]);
        await Deno.writeTextFile(bare("spares", "spare-0-crash"), "");
        await under.reopen();
        assert.deepEqual(await spares(), [spare]);
        assert.equal(await get(port), "hello from busybox");
        await backend().delete(name);
        assert.deepEqual(await spares(), []);
        assert.ok(!(await run("iptables", ["-w", "-t", "nat", "-S"])).stdout.includes(spare));
      } finally {
        await backend().delete(`${name}-first`);
      }
    },
  );

  test("nothing is left: no namespace, mount, lease or rule, no container", async () => {
    assert.deepEqual(await backend().list(), []);
    for (const folder of ["netns", "instances", "logs", "exits", "deployments"]) {
      assert.deepEqual(await names(bare(folder)), [], folder);
    }
    assert.equal(await Deno.readTextFile(bare("networks.json")), "{}", "user networks go");
    const bridges = (await Array.fromAsync(Deno.readDir("/sys/class/net"))).map(({ name }) => name);
    assert.ok(!bridges.some((bridge) => under.userBridges.includes(bridge)));
    const mounts = await Deno.readTextFile("/proc/self/mountinfo");
    assert.ok(!mounts.includes(bare("instances")) && !mounts.includes(bare("netns")));
    const rules = (await run("iptables", ["-w", "-t", "nat", "-S"])).stdout;
    const prefix = bridgeNetwork(under.subnetBase, 0).bridge.replace(/\d+$/, "");
    const own = rules.split("\n").filter((rule) => rule.includes(prefix)).join("\n");
    assert.doesNotMatch(own, /-0-[0-9a-f]{6}/);
    assert.ok(!rules.includes(portChain));
  });
}
