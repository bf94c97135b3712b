import assert from "node:assert/strict";
import { validateDeploySpec } from "./deploy_spec_parse.ts";
import { isAddress, parseTmpfs } from "./deploy_spec_text.ts";

const base = { name: "web", image: "app:v1" };
const accepts = (more: Record<string, unknown>) => validateDeploySpec({ ...base, ...more });

function refuses(more: Record<string, unknown>, message: RegExp): void {
  assert.throws(() => accepts(more), { code: "spec_invalid", message }, JSON.stringify(more));
}

Deno.test("nothing of a spec begins another line of a file", () => {
  const two = "a\n127.0.0.1 evil";
  const inLists = { name: "front", aliases: [two] };
  refuses({ networks: [inLists] }, /networks\[0\]\.aliases\[0\]: expected one line/);
  refuses({ extraHosts: { [two]: "10.0.0.1" } }, /extraHosts.*: expected a host name/);
  refuses({ extraHosts: { a: "10.0.0.1\n10.0.0.2 b" } }, /extraHosts\.a: expected one line/);
  refuses({ dnsSearch: ["a\nnameserver 10.9.9.9"] }, /dnsSearch\[0\]: expected one line/);
  refuses({ dnsOptions: ["ndots:1\nnameserver 10.9.9.9"] }, /dnsOptions\[0\]: expected one line/);
  refuses({ dnsServers: ["10.0.0.1\noptions x"] }, /dnsServers\[0\]: expected/);
  refuses({ hostname: "a\nb" }, /hostname: expected/);
  for (const field of ["image", "user", "pidMode", "ipcMode"]) {
    refuses({ [field]: "a\nb" }, /expected one line/);
  }
  for (const field of ["groupAdd", "securityOpt", "capAdd", "shells", "devices", "tmpfs"]) {
    refuses({ [field]: ["/a\nb"] }, new RegExp(`${field}\\[0\\]: expected`));
  }
  refuses({ ulimits: [{ name: "core\n", soft: 1, hard: 1 }] }, /ulimits\[0\]\.name: expected/);
  refuses({ sysctls: { "net.a\nb": "1" } }, /sysctls/);
  refuses({ sysctls: { "net.a": "1\n2" } }, /sysctls.*expected one line/);
  refuses({ volumes: [{ name: "v", target: "/a\nb" }] }, /volumes\[0\]\.target: expected one line/);
  refuses({ labels: { "a\nb": "1" } }, /labels.*: expected a name of one line/);
  // Texts that only people and programs read keep their lines.
  const lines = "one\ntwo\t3";
  accepts({ env: { A: lines }, command: ["sh", "-c", lines], labels: { a: lines } });
  refuses({ env: { A: "a\0b" } }, /env\.A: expected a text without NUL/);
  refuses({ command: ["a\0b"] }, /command\[0\]: expected a text without NUL/);
});

Deno.test("blanks and commas do not begin another entry either", () => {
  const alias = (name: string) => ({ networks: [{ name: "front", aliases: [name] }] });
  for (const name of ["a b", "a,b", "a#b", "-a", "", "a..b", "x".repeat(64)]) {
    refuses(alias(name), /aliases\[0\]: expected a host name/);
  }
  for (const name of ["localhost", "LocalHost", "x.localhost", "ip6-loopback"]) {
    refuses(alias(name), /aliases\[0\]: this name is reserved/);
  }
  refuses(alias("host.docker.internal"), /this name is reserved/);
  refuses({ name: "localhost" }, /name: this name is reserved/);
  accepts(alias("db.example_1.internal"));
  refuses({ dnsSearch: ["a b"] }, /dnsSearch\[0\]: expected a domain/);
  refuses({ dnsOptions: ["ndots:1 rotate"] }, /dnsOptions\[0\]: expected an option/);
  accepts({ dnsSearch: ["example.com.", "."], dnsOptions: ["ndots:2", "rotate"] });
  refuses({ sysctls: { "net/../kernel/x": "1" } }, /sysctls/);
});

Deno.test("addresses", () => {
  for (const text of ["10.0.0.1", "::1", "fe80::1", "::ffff:10.0.0.1"]) {
    assert.ok(isAddress(text), text);
  }
  for (const text of ["", "256.0.0.1", "10.0.0", ":", "1:2", "::1%eth0", "10.0.0.1 ", "a::g"]) {
    assert.ok(!isAddress(text), text);
  }
});

Deno.test("options of tmpfs are known ones", () => {
  assert.deepEqual(parseTmpfs("/run:ro,size=1m,mode=1770,uid=5,exec"), {
    target: "/run",
    readOnly: true,
    size: 1024 ** 2,
    mode: "1770",
    options: ["uid=5", "exec"],
  });
  for (
    const option of [
      ...["bind", "rbind", "remount", "rshared", "size=", "size=x", "mode=9", "uid=a", "exec=1"],
      ...["context=x", "huge=always", "source=/etc", "mode=0777 ,x"],
    ]
  ) refuses({ tmpfs: [`/run:${option}`] }, /tmpfs\[0\]/);
  refuses({ tmpfs: ["run"] }, /tmpfs\[0\]: expected/);
  refuses({ tmpfs: ["/run:ro:rw"] }, /tmpfs\[0\]: expected/);
});

Deno.test("what does not fit together is refused", () => {
  const long = (length: number, replicas = 1) => ({ name: "n".repeat(length), replicas });
  accepts(long(61));
  accepts(long(61, 10));
  refuses(long(62), /name: expected at most 61 characters: an instance is called NAME-0/);
  refuses(long(63), /at most 61/);
  refuses(long(61, 11), /name: expected at most 60 characters/);
  const volume = (target: string) => ({ name: "v", target });
  refuses(
    { volumes: [volume("/a")], mounts: ["/srv:/a/"] },
    /volumes\[0\]\.target: mounts\[0\] is/,
  );
  refuses(
    { volumes: [volume("/a")], tmpfs: ["/b/../a:ro"] },
    /tmpfs\[0\]: volumes\[0\] is mounted/,
  );
  refuses({ volumes: [volume("/a"), volume("//a")] }, /volumes\[1\]\.target/);
  refuses({ mounts: ["/srv:/a/.."] }, /mounts\[0\]\.target: the root cannot be mounted over/);
  accepts({ volumes: [volume("/a"), volume("/a/b")] });
  refuses({ ulimits: ["nofile=9:8"] }, /ulimits\[0\]\.soft: expected at most the hard limit of 8/);
  refuses({ ulimits: { core: { soft: -1, hard: 5 } } }, /ulimits\[0\]\.soft/);
  accepts({ ulimits: { core: -1, nofile: { soft: 5, hard: -1 } } });
  const resources = { memoryLimit: "64Mi", reservedMemory: "65Mi" };
  refuses({ resources }, /resources\.reservedMemory: expected at most the limit of 67108864/);
  refuses({ networks: ["a", "a"] }, /networks\[1\]\.name: it is attached already/);
  refuses({ extraHosts: ["db"] }, /extraHosts: expected name:address/);
  refuses({ extraHosts: ["db:"] }, /extraHosts\.db: expected an IP address or host-gateway/);
  refuses({ extraHosts: { db: "nowhere" } }, /extraHosts\.db/);
  accepts({ extraHosts: ["db:host-gateway", "six:::1"] });
  refuses({ env: { "A=B": "1" } }, /env.*: expected a name without '='/);
  refuses({ env: { "": "1" } }, /env.*: expected a name without '='/);
  refuses({ env: ["=1"] }, /env: expected NAME=VALUE/);
  refuses({ stopSignal: "SIGNOPE" }, /stopSignal: expected a signal such as SIGTERM/);
  refuses({ stopSignal: 65 }, /stopSignal/);
  for (const stopSignal of ["SIGRTMIN+3", "rtmax-1", 37, "term"]) accepts({ stopSignal });
  refuses({ capAdd: ["FLY"] }, /capAdd\[0\]: expected a capability such as NET_ADMIN, got "FLY"/);
});
