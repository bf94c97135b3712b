/** The registry of the distribution project, as Debian packages it, on a free port with data of its own. */
import { join } from "node:path";
import { freePort } from "../fixtures/free_port.ts";

export interface DockerRegistry extends AsyncDisposable {
  /** "127.0.0.1:PORT". */
  host: string;
  pid: number;
  /** Its configuration, for its other commands. */
  config: string;
  /** Its `rootdirectory`. */
  data: string;
}

/** bcrypt of "secret", which is the password of "user". */
const PASSWORD_FILE = "user:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

export async function startDockerRegistry(
  options: { login?: boolean; accessLog?: boolean } = {},
): Promise<DockerRegistry> {
  const dir = await Deno.makeTempDir({ prefix: "svc-docker-registry-" });
  const port = freePort();
  const data = join(dir, "data");
  const config = {
    version: 0.1,
    log: options.accessLog ? { level: "info" } : { level: "error", accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: data }, delete: { enabled: true } },
    http: { addr: `127.0.0.1:${port}`, secret: "of a test" },
    ...(options.login ? { auth: { htpasswd: { realm: "test", path: join(dir, "users") } } } : {}),
  };
  await Deno.writeTextFile(join(dir, "users"), PASSWORD_FILE);
  // JSON is YAML.
  await Deno.writeTextFile(join(dir, "config.yml"), JSON.stringify(config));
  const child = new Deno.Command("docker-registry", {
    args: ["serve", join(dir, "config.yml")],
    env: { OTEL_TRACES_EXPORTER: "none" },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const stop = async () => {
    try {
      child.kill("SIGKILL");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // it has ended
    }
    await child.status;
    await Deno.remove(dir, { recursive: true });
  };
  let ended = false;
  child.status.then(() => ended = true);
  for (const until = Date.now() + 60_000;;) {
    try {
      const answer = await fetch(`http://127.0.0.1:${port}/v2/`);
      await answer.body?.cancel();
      return {
        host: `127.0.0.1:${port}`,
        pid: child.pid,
        config: join(dir, "config.yml"),
        data,
        [Symbol.asyncDispose]: stop,
      };
    } catch (error) {
      if (ended || Date.now() > until) {
        await stop();
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
