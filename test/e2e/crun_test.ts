/** SVC_BARE_RUNTIME=crun: the main job with the other OCI runtime. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually } from "../waits.ts";
import { e2eTest, EXECUTABLE, freePort, startServer } from "./harness.ts";

const NEEDS = {
  root: true,
  commands: ["crun", "conmon", "iptables", "busybox", "unshare", "umount"],
};

const DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
RUN mkdir /srv && echo from crun > /srv/index.html
STOPSIGNAL SIGKILL
CMD ["httpd", "-f", "-p", "8080", "-h", "/srv"]
`;

/** crun refuses a host with both versions of cgroups: this server does not see the second. */
const WRAPPER = `#!/bin/sh
exec unshare -m sh -c 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$0" "$@"' '${EXECUTABLE}' "$@"
`;

/** The command line of a process's parent. */
async function parentOf(pid: number): Promise<string> {
  const fields = (await Deno.readTextFile(`/proc/${pid}/stat`)).replace(/^.*\) /, "").split(" ");
  return (await Deno.readTextFile(`/proc/${fields[1]}/cmdline`)).replaceAll("\0", " ");
}

e2eTest("crun builds, runs, execs, outlives the server and goes", NEEDS, async () => {
  const dir = await Deno.makeTempDir({ prefix: "svc-crun-" });
  try {
    const executable = join(dir, "svc");
    await Deno.writeTextFile(executable, WRAPPER, { mode: 0o755 });
    const context = join(dir, "context");
    await Deno.mkdir(context);
    await Deno.writeTextFile(join(context, "Dockerfile"), DOCKERFILE);
    await Deno.copyFile("/bin/busybox", join(context, "busybox"));
    await using server = await startServer({ executable, env: { SVC_BARE_RUNTIME: "crun" } });
    const port = freePort();
    const run = async (...args: string[]) => {
      const { code, stdout, stderr } = await server.svc(args);
      assert.equal(code, 0, `${args.join(" ")}: ${stderr}`);
      return stdout;
    };
    const page = async () => await (await fetch(`http://127.0.0.1:${port}/`)).text();
    const instance = async () => {
      const answer = await fetch(`${server.url}/.svc/v1/deployments/web`);
      return (await answer.json()).instances[0] as { pid: number; state: string };
    };
    await run("build", "-q", "-t", "web:1", context);
    await run("deploy", "web:1", "--name", "web", "-p", `${port}:8080`);
    await eventually("an answer", async () => await page().catch(() => "") === "from crun\n");
    assert.equal(await run("exec", "web", "cat", "/srv/index.html"), "from crun\n");
    const { pid } = await instance();
    assert.match(await parentOf(pid), /\bconmon\b.*\bcrun\b/);
    await server.kill9();
    assert.equal(await page(), "from crun\n");
    await server.restart();
    assert.deepEqual([(await instance()).pid, (await instance()).state], [pid, "running"]);
    await run("rm", "web");
    await eventually("its end", () => Deno.stat(`/proc/${pid}`).then(() => false, () => true));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
