/**
 * The peer of the builds: BuildKit as docker's daemon has it. `SVC_BENCH_DOCKER=DIR` names another docker
 * than the installed one: a folder with `usr/bin`, `usr/sbin` and `usr/libexec` as in Debian's packages.
 */
import { join } from "node:path";
import { silently } from "./measure.ts";

export interface BuildKit extends AsyncDisposable {
  version: string;
  /** `docker build ARGS`, with BuildKit. */
  build(args: string[]): Promise<void>;
  docker(args: string[]): Promise<void>;
  /** Forgets images and the build cache. */
  clear(): Promise<void>;
}

const START_MS = 30_000;

/** In a range that is kept for benches of networks. */
const BRIDGE_ADDRESS = "198.19.255.1/24";

export async function startBuildKit(): Promise<BuildKit> {
  const dir = await Deno.makeTempDir({ prefix: "svc-bench-docker-" });
  const other = Deno.env.get("SVC_BENCH_DOCKER");
  // Without one, Debian's: another client on the PATH may lack what builds with BuildKit.
  const place = other ?? "/";
  const path = [join(place, "usr/sbin"), join(place, "usr/bin"), "/usr/sbin", "/usr/bin", "/bin"];
  const plugins = [join(place, "usr/libexec/docker/cli-plugins")];
  const config = join(dir, "config");
  await Deno.mkdir(config);
  await Deno.writeTextFile(
    join(config, "config.json"),
    JSON.stringify({ cliPluginsExtraDirs: plugins }),
  );
  const env = { PATH: path.join(":"), DOCKER_BUILDKIT: "1", DOCKER_CONFIG: config };
  const host = `unix://${dir}/docker.sock`;
  // Steps get a namespace on a bridge, which is docker's default; what leads out of it is not a step's cost.
  const bridge = `bench${crypto.randomUUID().slice(0, 6)}`;
  await silently("ip", ["link", "add", bridge, "type", "bridge"]);
  await silently("ip", ["address", "add", BRIDGE_ADDRESS, "dev", bridge]);
  const daemon = new Deno.Command("sh", {
    args: [
      "-c",
      `exec dockerd --bridge="$2" --iptables=false --ip6tables=false --ip-forward=false \
        --data-root "$0/data" --exec-root "$0/exec" --pidfile "$0/pid" -H "$1" >"$0/log" 2>&1`,
      dir,
      host,
      bridge,
    ],
    env,
    stdin: "null",
  }).spawn();
  const docker = (args: string[]) =>
    silently(join(place, "usr/bin/docker"), ["-H", host, ...args], env);
  const stop = async () => {
    daemon.kill("SIGTERM");
    await daemon.status;
    await silently("ip", ["link", "delete", bridge]);
    await new Deno.Command("rm", { args: ["-rf", dir] }).output();
  };
  const until = performance.now() + START_MS;
  while (!await docker(["info"]).then(() => true, () => false)) {
    if (performance.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      continue;
    }
    const log = await Deno.readTextFile(join(dir, "log"));
    await stop();
    throw new Error(`dockerd did not start:\n${log.slice(-2000)}`);
  }
  const version = await new Deno.Command(join(place, "usr/bin/docker"), {
    args: ["-H", host, "version", "--format", "{{.Server.Version}}"],
    env,
  }).output();
  return {
    version: new TextDecoder().decode(version.stdout).trim(),
    docker,
    build: (args) => docker(["build", "--quiet", ...args]),
    clear: async () => {
      await docker(["system", "prune", "-af"]);
      await docker(["builder", "prune", "-af"]);
    },
    [Symbol.asyncDispose]: stop,
  };
}
