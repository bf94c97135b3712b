/** What the way to the server costs a small command: a kept session, TLS, an SSH tunnel of either kind. */
import { join } from "node:path";
import { stringify } from "yaml";
import { EXECUTABLE, startServer } from "../e2e/harness.ts";
import { makeKey, startSshd } from "../peers/sshd.ts";
import { interleave, report, silently } from "./measure.ts";

const ROUNDS = 31;

export async function clientWays(): Promise<void> {
  const home = await Deno.makeTempDir({ prefix: "svc-bench-client-" });
  const key = join(home, "key");
  await makeKey(key);
  await using sshd = await startSshd();
  await using open = await startServer();
  await using locked = await startServer({
    env: { SVC_AUTHORIZED_KEYS: await Deno.readTextFile(`${key}.pub`) },
  });
  const known = join(home, "known_hosts");
  await Deno.writeTextFile(known, await sshd.knownHosts());
  const keyAuth = { "key-auth": { "identity-file": key } };
  const tunnel = {
    addr: `127.0.0.1:${sshd.port}`,
    user: "root",
    "identity-file": sshd.user,
    "known-hosts": known,
  };
  const contexts = {
    direct: { server: open.url },
    key: { server: locked.url, ...keyAuth },
    ssh: { "ssh-tunnel": { ...tunnel, "remote-addr": open.host } },
    "ssh-key": { "ssh-tunnel": { ...tunnel, "remote-addr": locked.host }, ...keyAuth },
    binary: { "ssh-tunnel": { ...tunnel, "remote-addr": open.host, "use-ssh-binary": true } },
  };
  const config = join(home, "config.yaml");
  await Deno.writeTextFile(config, stringify({ contexts }), { mode: 0o600 });
  const env = {
    HOME: home,
    XDG_RUNTIME_DIR: home,
    DBUS_SESSION_BUS_ADDRESS: "",
    SSH_AUTH_SOCK: "",
    SVC_SERVER: "",
    SVC_CONFIG: config,
  };
  const ps = (context: keyof typeof contexts, name: string) => ({
    name,
    run: () => silently(EXECUTABLE, ["ps", "--context", context], env),
  });
  try {
    report(
      "svc ps by the way to its server",
      await interleave([
        ps("direct", "direct, no auth"),
        ps("key", "key-auth, kept session"),
        ps("ssh", "ssh-tunnel"),
        ps("ssh-key", "ssh-tunnel, key-auth"),
        ps("binary", "ssh-tunnel, ssh binary"),
        {
          name: "ssh host true",
          run: () =>
            silently("ssh", [
              ...["-F", "none", "-p", String(sshd.port), "-i", sshd.user],
              ...["-o", `UserKnownHostsFile=${known}`, "root@127.0.0.1", "true"],
            ]),
        },
      ], ROUNDS),
    );
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}
