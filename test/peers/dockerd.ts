/** A docker daemon of the test's own. */
import { join } from "node:path";

/** A dockerd that touches nothing of the host's network; its socket is `docker.sock` in `folder`. */
export async function startDockerd(folder: string): Promise<AsyncDisposable & { host: string }> {
  const host = `unix://${folder}/docker.sock`;
  const process = new Deno.Command("sh", {
    args: [
      "-c",
      `exec dockerd --bridge=none --iptables=false --ip-forward=false --storage-driver=vfs \
        --data-root "$0/data" --exec-root "$0/exec" --pidfile "$0/pid" -H "$1" >"$0/dockerd.log" 2>&1`,
      folder,
      host,
    ],
    env: { PATH: `${Deno.env.get("PATH")}:/usr/sbin:/sbin` },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  let ended = false;
  const status = process.status.finally(() => ended = true);
  const stop = async () => {
    if (!ended) process.kill("SIGTERM");
    const timer = setTimeout(() => ended || process.kill("SIGKILL"), 60_000);
    await status;
    clearTimeout(timer);
  };
  for (const until = Date.now() + 120_000;;) {
    const info = await new Deno.Command("docker", {
      args: ["-H", host, "version"],
      stdout: "null",
      stderr: "null",
    }).output();
    if (info.success) return { host, [Symbol.asyncDispose]: stop };
    if (ended || Date.now() > until) {
      await stop();
      const text = await Deno.readTextFile(join(folder, "dockerd.log"));
      throw new Error(`dockerd did not start:\n${text.slice(-3000)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
}
