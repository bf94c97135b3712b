import assert from "node:assert/strict";
import type { SshTunnel } from "../profile/types.ts";
import { parseSshG, splitAddress, sshArguments } from "./config.ts";

Deno.test("ssh -G: what the tunnel needs of it; the profile's fields go first", () => {
  const text =
    "hostname 10.0.0.5\nport 2222\nuser me\nidentityfile ~/.ssh/id_a\nidentityfile /k/b\n" +
    'userknownhostsfile "/h/known hosts" /h/two\nglobalknownhostsfile /etc/g\nidentityagent SSH_AUTH_SOCK\n' +
    "stricthostkeychecking accept-new\nproxyjump none\nhostkeyalias alias\n";
  const env = { HOME: "/h", SSH_AUTH_SOCK: "/agent" };
  assert.deepEqual(parseSshG(text, { addr: "lab" }, env), {
    hostname: "10.0.0.5",
    port: 2222,
    user: "me",
    identityFiles: ["/h/.ssh/id_a", "/k/b"],
    agent: "/agent",
    knownHosts: ["/h/known hosts", "/h/two", "/etc/g"],
    hostKeyAlias: "alias",
    strict: "accept-new",
    proxied: false,
  });
  const own = parseSshG(text + "proxycommand nc %h %p\n", {
    addr: "lab",
    "no-agent": true,
    "known-hosts": "/k",
  }, env);
  assert.equal(own.agent, undefined);
  assert.deepEqual(own.knownHosts, ["/k"]);
  assert.equal(own.proxied, true);
});

Deno.test("addresses: aliases, ports and IPv6", () => {
  assert.deepEqual(splitAddress("lab"), { host: "lab" });
  assert.deepEqual(splitAddress("h:2222"), { host: "h", port: 2222 });
  assert.deepEqual(splitAddress("[::1]:22"), { host: "::1", port: 22 });
  assert.deepEqual(splitAddress("me@lab"), { user: "me", host: "lab" });
  assert.deepEqual(splitAddress("me@corp@h:2222"), { user: "me@corp", host: "h", port: 2222 });
  assert.deepEqual(splitAddress("me@[::1]:22"), { user: "me", host: "::1", port: 22 });
});

Deno.test("user@host: the user logs in, unless the field names another", () => {
  const args = (settings: SshTunnel) => sshArguments(settings).join(" ");
  assert.equal(args({ addr: "me@lab:2222" }), "-p 2222 -l me");
  assert.equal(args({ addr: "me@lab", user: "other" }), "-l other");
  assert.equal(args({ addr: "lab" }), "");
  assert.equal(parseSshG("hostname lab\n", { addr: "me@lab" }, {}).user, "me");
});
