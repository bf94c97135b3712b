import assert from "node:assert/strict";
import { type HostFacts, parseHostFacts } from "./host_facts.ts";
import { UNLIMITED } from "./document.ts";
import { runtimeSpec, type RuntimeSpecOptions } from "./spec.ts";

const facts: HostFacts = parseHostFacts(
  {
    status: "CapPrm:\t000001fffeffffff\nCapBnd:\t000001fffeffffff\n",
    limits: "Max open files            20000                20000                files     \n" +
      "Max core file size        0                    unlimited            bytes     \n",
    filesystems: "nodev\tsysfs\nnodev\tmqueue\n\text4\n",
  },
  false,
  "x86_64",
);

const make = (more: Partial<RuntimeSpecOptions> = {}, host = facts) =>
  runtimeSpec({ rootfs: "/r", args: ["/app"], env: [], network: "none", ...more }, host);

Deno.test("host facts: capabilities by bit, limits, file systems", () => {
  assert.ok(facts.capabilities.has("CAP_CHOWN"));
  assert.ok(!facts.capabilities.has("CAP_SYS_RESOURCE"));
  assert.equal(facts.hardLimits.RLIMIT_NOFILE, 20000);
  assert.equal(facts.hardLimits.RLIMIT_CORE, Infinity);
  assert.ok(facts.filesystems.has("ext4") && facts.filesystems.has("mqueue"));
});

Deno.test("capabilities follow docker's ALL rules; other users hold none", () => {
  const caps = (more: Partial<RuntimeSpecOptions>) => make(more).spec.process.capabilities;
  assert.equal(caps({}).bounding.length, 14);
  assert.deepEqual(caps({ capDrop: ["ALL"], capAdd: ["net_admin"] }).effective, ["CAP_NET_ADMIN"]);
  assert.ok(!caps({ capAdd: ["ALL"], capDrop: ["CHOWN"] }).bounding.includes("CAP_CHOWN"));
  assert.ok(caps({ privileged: true }).bounding.includes("CAP_SYS_ADMIN"));
  assert.deepEqual(caps({ user: { uid: 5, gid: 5 } }).effective, []);
  assert.throws(() => make({ capAdd: ["FLY"] }), { code: "argument_invalid", message: /FLY/ });
});

Deno.test("a capability the host lacks is left out and reported", () => {
  const { spec, warnings } = make({ capAdd: ["SYS_RESOURCE"] });
  assert.ok(!spec.process.capabilities.bounding.includes("CAP_SYS_RESOURCE"));
  assert.match(warnings.join(), /CAP_SYS_RESOURCE/);
  const all = make({ privileged: true });
  assert.ok(!all.spec.process.capabilities.bounding.includes("CAP_SYS_RESOURCE"));
  assert.deepEqual(all.warnings, []);
});

Deno.test("limits above the hard limit are lowered without CAP_SYS_RESOURCE, kept with it", () => {
  const rlimits = [{ name: "nofile", soft: 1000, hard: 65536 }, {
    name: "core",
    soft: 0,
    hard: -1,
  }];
  const { spec, warnings } = make({ rlimits });
  assert.deepEqual(spec.process.rlimits[0], { type: "RLIMIT_NOFILE", soft: 1000, hard: 20000 });
  assert.equal(warnings.length, 1);
  assert.equal(spec.process.rlimits[1].hard, UNLIMITED);
  const strong = { ...facts, capabilities: new Set([...facts.capabilities, "CAP_SYS_RESOURCE"]) };
  assert.equal(make({ rlimits }, strong).spec.process.rlimits[0].hard, 65536);
  assert.throws(() => make({ rlimits: [{ name: "nofiles", soft: 1, hard: 1 }] }), /nofiles/);
});

Deno.test("mounts: user mounts replace the system's and parents come first", () => {
  const { spec } = make({
    mounts: [
      { type: "tmpfs", target: "/a/b/c" },
      { type: "bind", source: "/x", target: "/a", readOnly: true },
      { type: "tmpfs", target: "/dev/shm", size: 1024 },
    ],
  });
  const targets = spec.mounts.map((mount) => mount.destination);
  assert.ok(targets.indexOf("/a") < targets.indexOf("/a/b/c"));
  assert.equal(targets.filter((target) => target === "/dev/shm").length, 1);
  assert.ok(spec.mounts.find((m) => m.destination === "/a")?.options.includes("ro"));
  assert.ok(spec.mounts.find((m) => m.destination === "/dev/shm")?.options.includes("size=1024"));
});

Deno.test("namespaces, resources and filter follow the options", () => {
  const host = make({ network: "host", pid: "host", ipc: "host" }).spec;
  assert.deepEqual(host.linux.namespaces.map((n) => n.type), ["mount", "uts"]);
  assert.equal(host.linux.sysctl, undefined);
  const own = make({
    network: { path: "/n" },
    resources: { memory: 1024, cpus: 0.5, pids: 9 },
  }).spec;
  assert.ok(own.linux.namespaces.some((n) => n.type === "network" && n.path === "/n"));
  const resources = own.linux.resources as Record<string, unknown>;
  assert.deepEqual(resources.cpu, { quota: 50_000, period: 100_000 });
  assert.deepEqual(resources.memory, { limit: 1024 });
  assert.deepEqual(resources.pids, { limit: 9 });
  const swapping = make({ resources: { memory: 1024 } }, { ...facts, limitsSwap: true }).spec;
  const { memory } = swapping.linux.resources as Record<string, unknown>;
  assert.deepEqual(memory, { limit: 1024, swap: 2048 });
  const filter = (more: Partial<RuntimeSpecOptions>) => make(more).spec.linux.seccomp;
  assert.ok(filter({}));
  assert.equal(filter({ seccomp: "unconfined" }), undefined);
  assert.equal(filter({ privileged: true }), undefined);
});

Deno.test("a user namespace's root takes the host's /sys where it shares the network", () => {
  const root = { ...facts, capabilities: new Set([...facts.capabilities, "CAP_SYS_RESOURCE"]) };
  const host = { ...root, userNamespace: true };
  const sys = (more: Partial<RuntimeSpecOptions>, facts: HostFacts) =>
    make(more, facts).spec.mounts.filter(({ destination }) => destination.startsWith("/sys"));
  assert.deepEqual(sys({ network: "host" }, root).map(({ type }) => type), ["sysfs", "cgroup"]);
  assert.deepEqual(sys({ network: "none" }, host).map(({ type }) => type), ["sysfs", "cgroup"]);
  const [bind, ...rest] = sys({ network: "host" }, host);
  assert.deepEqual([bind.source, rest.length], ["/sys", 0]);
  assert.ok(bind.options.includes("rbind") && bind.options.includes("ro"));
  // Its groups are fewer than this sysctl would name, and a limit is not its to raise.
  const group = "net.ipv4.ping_group_range";
  assert.ok(group in (make({}, root).spec.linux.sysctl as object));
  assert.ok(!(group in (make({}, host).spec.linux.sysctl as object)));
  const rlimits = [{ name: "nofile", soft: 30000, hard: 30000 }];
  assert.equal(make({ rlimits }, root).spec.process.rlimits[0].hard, 30000);
  assert.equal(make({ rlimits }, host).spec.process.rlimits[0].hard, 20000);
});
