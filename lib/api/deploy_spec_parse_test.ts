import assert from "node:assert/strict";
import { parseDeploySpec, validateDeploySpec } from "./deploy_spec_parse.ts";

const base = { name: "web", image: "app:v1" };

/** The message of the refusal, without the leading words. */
function refusal(more: Record<string, unknown>): string {
  try {
    validateDeploySpec({ ...base, ...more });
  } catch (error) {
    assert.equal((error as { code?: string }).code, "spec_invalid");
    return (error as Error).message.replace("Cannot use deployment spec: ", "");
  }
  throw new assert.AssertionError({ message: `accepted ${JSON.stringify(more)}` });
}

Deno.test("a small spec gets its defaults, and a checked spec passes unchanged", () => {
  const spec = validateDeploySpec(base);
  assert.deepEqual(spec, {
    ...base,
    env: {},
    ports: [],
    mounts: [],
    volumes: [],
    networks: [],
    restart: "unless-stopped",
    replicas: 1,
  });
  const full = parseDeploySpec(`
name: web
image: app:v1
command: sh -c "echo 'a b' \\"c\\""
entrypoint: [/init]
env: [A=1, B=x=y]
ports: ["8080:80", "127.0.0.1:8443:443/tcp", 53/udp, 9000-9002:9000-9002, {container: 7}]
mounts: ["/srv:/data:ro"]
volumes: ["db:/var/lib/db"]
networks: [front]
restart: on-failure:3
resources: {cpuLimit: 500m, memoryLimit: 64Mi}
healthcheck: {test: curl localhost, interval: 1m30s, retries: 3}
ulimits: {nofile: 1024, nproc: {soft: 1, hard: 2}}
extraHosts: ["db:10.0.0.1", "six=::1"]
user: 1000
stopGracePeriod: 10s
tmpfs: /run
`);
  assert.deepEqual(full.command, ["sh", "-c", `echo 'a b' "c"`]);
  assert.deepEqual(full.env, { A: "1", B: "x=y" });
  assert.equal(full.ports.length, 7);
  assert.deepEqual(full.ports[1], {
    host: 8443,
    container: 443,
    hostIP: "127.0.0.1",
    protocol: "tcp",
  });
  assert.deepEqual(full.ports[2], { container: 53, protocol: "udp" });
  assert.deepEqual(full.ports[5].host, 9002);
  assert.deepEqual(full.mounts, [{ source: "/srv", target: "/data", readOnly: true }]);
  assert.equal(full.restart, "on-failure");
  assert.equal(full.restartMaxAttempts, 3);
  assert.deepEqual(full.resources, { cpuLimit: 0.5, memoryLimit: 64 * 1024 ** 2 });
  assert.deepEqual(full.healthcheck?.test, ["CMD-SHELL", "curl localhost"]);
  assert.deepEqual(full.ulimits, [
    { name: "nofile", soft: 1024, hard: 1024 },
    { name: "nproc", soft: 1, hard: 2 },
  ]);
  assert.deepEqual(full.extraHosts, { db: "10.0.0.1", six: "::1" });
  assert.equal(full.user, "1000");
  assert.deepEqual(validateDeploySpec(JSON.parse(JSON.stringify(full))), full);
});

Deno.test("each refusal names the path and what was expected", () => {
  assert.equal(
    refusal({ ports: [{ container: 80 }, { container: 70000 }] }),
    "ports[1].container: expected 1..65535",
  );
  assert.equal(refusal({ ports: [{}] }), "ports[0].container: required");
  assert.match(refusal({ ports: "80" }), /^ports: expected a list/);
  assert.match(refusal({ ports: ["a:b"] }), /^ports: expected \[\[address:\]host:\]container/);
  assert.match(refusal({ ports: ["80/icmp"] }), /protocol tcp, udp or sctp, got "icmp"/);
  assert.match(refusal({ ports: ["1-3:5-6"] }), /ranges of the same length/);
  assert.match(refusal({ name: "Web_1" }), /^name: expected a DNS label/);
  assert.equal(refusal({ image: undefined }), "image: required");
  assert.match(refusal({ env: ["A"] }), /^env: expected NAME=VALUE, got "A"/);
  assert.match(refusal({ env: { A: null } }), /^env\.A: expected text/);
  assert.match(refusal({ stopGracePeriod: "10" }), /^stopGracePeriod: expected a duration/);
  assert.match(refusal({ resources: { memoryLimit: "64Qi" } }), /^resources\.memoryLimit: .*64Mi/);
  assert.match(refusal({ healthcheck: { test: ["curl"] } }), /^healthcheck\.test: .*CMD/);
  assert.match(refusal({ mounts: ["/a:/b:rx"] }), /unknown option "rx"/);
  assert.match(refusal({ restart: "sometimes" }), /^restart: expected no, on-failure/);
  assert.match(refusal({ command: "sh -c 'x" }), /^command: expected a closing '/);
});

Deno.test("unknown fields suggest the nearest name, at every depth", () => {
  assert.equal(refusal({ replica: 2 }), `unknown field "replica"; did you mean replicas?`);
  assert.equal(
    refusal({ ports: [{ container: 80, hostIp: "127.0.0.1" }] }),
    `ports[0]: unknown field "hostIp"; did you mean hostIP?`,
  );
  assert.match(
    refusal({ healthcheck: { intervall: "1s" } }),
    /^healthcheck: unknown field "intervall"; did you mean interval\?/,
  );
  assert.equal(refusal({ zzzzzzz: 1 }), `unknown field "zzzzzzz"`);
});

Deno.test("malformed text is reported with line and column, and the file's name", () => {
  const refused = (text: string, message: RegExp) =>
    assert.throws(() => parseDeploySpec(text, { file: "app.yaml" }), {
      code: "spec_invalid",
      message,
    });
  refused("name: web\nimage: [a\n", /Cannot read app\.yaml: line 3, column 1: /);
  refused("name: a\nname: b\n", /line 2, column 1: .*unique/);
  refused(`{"name": "web",\n "image" "x"}`, /line 2, column \d+: /);
  refused("a: 1\n---\nb: 2\n", /line 2.*one document/);
  refused("", /it is empty/);
  refused("- a\n", /app\.yaml: .*expected/);
  refused(
    "name: web\nimage: x\nports:\n  - container: 99999\n",
    /app\.yaml: ports\[0\]\.container: expected 1\.\.65535 \(line 4, column 16\)/,
  );
});

Deno.test("several mistakes are reported together and as data", () => {
  assert.throws(() => validateDeploySpec({ name: "web", image: "", replicas: -1 }), (error) => {
    const { detail } = error as { detail: { issues: { path: string }[] } };
    assert.deepEqual(detail.issues.map((issue) => issue.path), ["image", "replicas"]);
    return true;
  });
});

Deno.test("exposed ports: numbers, ranges and protocols, and none of the host's", () => {
  const { expose, ports } = validateDeploySpec({ ...base, expose: [80, "53/udp", "9000-9001"] });
  assert.deepEqual(expose, [
    { container: 80, protocol: "tcp" },
    { container: 53, protocol: "udp" },
    { container: 9000, protocol: "tcp" },
    { container: 9001, protocol: "tcp" },
  ]);
  assert.deepEqual(ports, []);
  assert.deepEqual(validateDeploySpec({ ...base, expose }).expose, expose);
  assert.match(refusal({ expose: ["8080:80"] }), /^expose: .*what is published stands in ports/);
  assert.match(refusal({ expose: [{ container: 80, host: 8080 }] }), /^expose\[0\]/);
  assert.match(
    refusal({ expose: [{ container: 70000 }] }),
    /^expose\[0\]\.container: expected 1\.\.65535/,
  );
});

Deno.test("addresses of a network lie in its subnet", () => {
  const network = (more: Record<string, string>) => ({ networks: [{ name: "front", ...more }] });
  const subnet = "10.9.8.0/24";
  const good: Record<string, string>[] = [
    { ip: "10.9.8.7" },
    { subnet, ip: "10.9.8.7", gateway: "10.9.8.254", ipRange: "10.9.8.128/25" },
    { subnet, ipRange: subnet },
    { subnet: "fd00:1::/64", gateway: "fd00:1::1", ipRange: "fd00:1::/80" },
  ];
  for (const one of good) validateDeploySpec({ ...base, ...network(one) });
  const bad: [Record<string, string>, RegExp][] = [
    [{ gateway: "10.9.8.1" }, /^networks\[0\]\.gateway: it needs subnet/],
    [{ ipRange: "10.9.8.0/25" }, /^networks\[0\]\.ipRange: it needs subnet/],
    [{ subnet, gateway: "10.9.9.1" }, /^networks\[0\]\.gateway: expected it to lie in/],
    [{ subnet, gateway: "fd00::1" }, /^networks\[0\]\.gateway/],
    [{ subnet, ip: "10.9.7.255" }, /^networks\[0\]\.ip: /],
    [{ subnet, ipRange: "10.9.0.0/16" }, /^networks\[0\]\.ipRange/],
    [{ subnet, ipRange: "10.9.9.0/25" }, /^networks\[0\]\.ipRange/],
    [{ subnet, ipRange: "10.9.8.0/99" }, /^networks\[0\]\.ipRange/],
    [{ subnet: "anything", gateway: "10.9.8.1" }, /^networks\[0\]\.gateway/],
  ];
  for (const [one, words] of bad) assert.match(refusal(network(one)), words);
});
