import assert from "node:assert/strict";
import { validateDeploySpec } from "../../api/deploy_spec_parse.ts";
import type { NetworkRecord } from "../networks/record.ts";
import { checkRequest, FIELDS } from "./honoured.ts";
import { deploymentName, someName } from "./names.ts";
import { type ContainerRecord, givenLabels, LABELS } from "./record.ts";
import type { ContainerConfig, HostConfig } from "../bodies.ts";
import { containerSpec } from "./spec.ts";
import { storageOf } from "./storage.ts";

const ID = "ab".repeat(32);
const NET: NetworkRecord = {
  ...{ id: "1", name: "net", driver: "bridge", internal: true, attachable: false },
  ...{ enableIPv6: false, options: {}, labels: { "com.docker.x": "1" }, created: "" },
};

function specOf(
  given: ContainerConfig,
  hostConfig: HostConfig = {},
  { publishes = true, endpoints = {} as ContainerRecord["endpoints"] } = {},
) {
  const storage = storageOf({
    ...{ id: ID, config: given, host: hostConfig, socket: "/run/own.sock" },
    volume: () => undefined,
  });
  const record: ContainerRecord = {
    ...{ id: ID, name: "web", deployment: "web", created: "", image: "a", imageId: "" },
    ...{ given, config: given, hostConfig, endpoints },
    ...{ mounts: storage.mounts, anonymous: storage.anonymous },
    source: { image: "host/a:1", binds: storage.binds },
  };
  const spec = containerSpec({
    ...{ record, storage, publishes },
    network: (name) => name === "net" ? NET : undefined,
  });
  return { spec, storage };
}

Deno.test("docker API: a container's request becomes a spec that the server takes", () => {
  const { spec, storage } = specOf({
    ...{ Env: ["A=b=c", "E="], Cmd: ["x"], Entrypoint: [""], User: "1:2", WorkingDir: "/w" },
    ...{ Tty: true, OpenStdin: true, Labels: { "com.docker.compose.project": "p" } },
    ...{ ExposedPorts: { "80/tcp": {}, "90/udp": {} }, StopTimeout: 3, Volumes: { "/anon": {} } },
    Healthcheck: { Test: ["CMD-SHELL", "true"], Interval: 1_500_000_000, Retries: 2 },
  }, {
    ...{ Memory: 64 << 20, NanoCpus: 5e8, ReadonlyRootfs: true, Tmpfs: { "/t": "size=1m" } },
    ...{ PortBindings: { "80/tcp": [{ HostIp: "", HostPort: "8080" }] } },
    ...{ Binds: ["/src:/dst:ro", "data:/data"], NetworkMode: "net", Init: true },
    ...{ RestartPolicy: { Name: "on-failure", MaximumRetryCount: 3 } },
    ...{ ExtraHosts: ["db:10.0.0.1", "v6:[::1]"], Ulimits: [{ Name: "nofile", Soft: 1, Hard: 2 }] },
    Mounts: [{ Type: "tmpfs", Target: "/m", TmpfsOptions: { SizeBytes: 4096 } }],
  }, { endpoints: { net: { Aliases: ["al"] } } });
  const checked = validateDeploySpec(spec);
  assert.deepEqual(checked.env, { A: "b=c", E: "" });
  assert.deepEqual([checked.command, checked.entrypoint], [["x"], []]);
  assert.deepEqual(checked.ports, [{ host: 8080, container: 80, protocol: "tcp" }]);
  assert.deepEqual(checked.expose, [{ container: 90, protocol: "udp" }]);
  assert.deepEqual(storage.binds, [{ source: "/src", target: "/dst", readOnly: true }]);
  assert.deepEqual(checked.volumes.map(({ target }) => target), ["/data", "/anon"]);
  assert.deepEqual(checked.tmpfs, ["/m:size=4096", "/t:size=1m"]);
  assert.deepEqual(checked.resources, { cpuLimit: 0.5, memoryLimit: 64 << 20 });
  assert.deepEqual(checked.healthcheck, {
    ...{ test: ["CMD-SHELL", "true"], interval: "1500ms", retries: 2 },
  });
  assert.deepEqual(checked.extraHosts, { db: "10.0.0.1", v6: "::1" });
  assert.deepEqual([checked.restart, checked.restartMaxAttempts], ["on-failure", 3]);
  assert.equal(checked.stopGracePeriod, "3s");
  assert.equal(checked.hostname, ID.slice(0, 12));
  const [network] = checked.networks;
  assert.deepEqual([network.name, network.internal], ["net", true]);
  assert.deepEqual(network.aliases, ["al", "web", ID.slice(0, 12)]);
  // No program beside an engine acts on them.
  assert.ok(
    Object.keys({ ...checked.labels, ...network.labels }).every((name) =>
      name.startsWith("svc.docker.")
    ),
  );
  assert.deepEqual(givenLabels(checked.labels!), { "com.docker.compose.project": "p" });
  assert.equal(checked.labels![LABELS.id], ID);
});

Deno.test("docker API: a server that is elsewhere publishes nothing; the ports are forwarded", () => {
  const host = { PortBindings: { "80/tcp": [{ HostPort: "1" }, { HostPort: "2" }] } };
  const { spec } = specOf({ ExposedPorts: { "80/tcp": {} } }, host, { publishes: false });
  assert.deepEqual(spec.ports, []);
  assert.deepEqual(spec.expose, [{ container: 80, protocol: "tcp" }]);
});

Deno.test("docker API: what cannot be honoured is an error that names it", () => {
  const refused: [HostConfig, RegExp][] = [
    [{ Links: ["a:b"] }, /HostConfig\.Links/],
    [{ DeviceRequests: [{}] }, /HostConfig\.DeviceRequests.*GPU/],
    [{ CgroupParent: "/x" }, /HostConfig\.CgroupParent/],
    [{ UTSMode: "host" }, /HostConfig\.UTSMode/],
    [{ Runtime: "runsc" }, /HostConfig\.Runtime/],
    [{ LogConfig: { Type: "syslog" } }, /HostConfig\.LogConfig.*syslog/],
    [{ Unheard: 1 }, /HostConfig\.Unheard.*does not know/],
    [{ NetworkMode: "container:x" }, /container:x/],
    [{ PidMode: "container:x" }, /PidMode/],
    [{ Binds: ["/var/run/docker.sock:/s"] }, /an engine's own socket/],
    [{ Binds: ["/run/own.sock:/s"] }, /an engine's own socket/],
    [{ Binds: ["/run/user/1/svc/../svc/agent.sock:/s"] }, /an engine's own socket/],
    [{ Mounts: [{ Type: "bind", Source: "/run/podman/podman.sock", Target: "/s" }] }, /own socket/],
    [{ Binds: ["/a:/b:rshared"] }, /rshared/],
    [{ Mounts: [{ Type: "npipe", Target: "/x" }] }, /npipe/],
    [{ Mounts: [{ Type: "volume", Source: "v", Target: "x" }] }, /not absolute/],
    [{ PortBindings: { "80/tcp": [{ HostPort: "1-2" }] } }, /port of a range/],
    [{ RestartPolicy: { Name: "sometimes" } }, /sometimes/],
    [{ AutoRemove: true, RestartPolicy: { Name: "always" } }, /'AutoRemove'/],
    [{ RestartPolicy: { Name: "always", MaximumRetryCount: 3 } }, /only be used with 'on-failure'/],
    [{ RestartPolicy: { Name: "on-failure", MaximumRetryCount: -1 } }, /cannot be negative/],
    [{ Memory: 100 }, /Minimum memory limit/],
    [{ NanoCpus: -1 }, /NanoCpus cannot be negative/],
  ];
  for (const [host, message] of refused) {
    assert.throws(
      () => {
        checkRequest({ HostConfig: host });
        specOf({}, host);
      },
      { code: "argument_invalid", message },
      JSON.stringify(host),
    );
  }
  assert.throws(() => checkRequest({ Unheard: 1 }), { message: /Unheard.*does not know/ });
  assert.throws(() => specOf({ Healthcheck: { Interval: 5 } }, {}), { message: /Interval.*1ms/ });
});

Deno.test("docker API: a field without effect is told; one that says nothing is not", () => {
  assert.deepEqual(checkRequest({ Domainname: "", HostConfig: { PidsLimit: 0, Links: [] } }), []);
  const told = checkRequest({ Domainname: "d", HostConfig: { CpuShares: 5, MemorySwap: 7 } });
  assert.deepEqual(told.map((text) => text.split(" ")[0]), [
    ...["Domainname", "HostConfig.CpuShares", "HostConfig.MemorySwap"],
  ]);
  const { HOST, HOST_TOLD, HOST_REFUSED, CONFIG, CONFIG_TOLD } = FIELDS;
  const host = [...HOST, ...Object.keys(HOST_TOLD), ...Object.keys(HOST_REFUSED)];
  const all = [...CONFIG, ...Object.keys(CONFIG_TOLD)];
  assert.equal(new Set(host).size, host.length);
  assert.equal(new Set(all).size, all.length);
});

Deno.test("docker API: names of containers and of their deployments", () => {
  assert.equal(deploymentName("web", ID, () => false), "web");
  assert.equal(deploymentName("web", ID, () => true), "web-abababababab");
  assert.equal(deploymentName("Web_1", ID, () => false), "web-1-abababababab");
  assert.equal(deploymentName("__", ID, () => false), "container-abababababab");
  assert.ok(deploymentName("x".repeat(200), ID, () => false).length <= 61);
  assert.match(someName(() => false), /^[a-z]+_[a-z]+\d+$/);
});
