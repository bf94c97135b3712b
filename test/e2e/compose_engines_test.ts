/** The scenarios of `svc compose` on engines other than svc's own. */
import { startContainerd } from "../peers/containerd.ts";
import { startDockerd } from "../peers/dockerd.ts";
import { PODMAN_COMMANDS, PODMAN_FILES, startPodman } from "../peers/podman.ts";
import { runFiles, runShop } from "./compose_scenarios.ts";
import { baseImage, e2eTest, startServer } from "./harness.ts";

const TOOLS = ["busybox", "iptables", "ip", "skopeo"];

async function run(
  t: Deno.TestContext,
  env: Record<string, string>,
  { dataDir, files = true }: { dataDir?: string; files?: boolean } = {},
): Promise<void> {
  await using server = await startServer({
    env: { SVC_REGISTRY_SOURCE: "off", ...env },
    ...(dataDir && { dataDir }),
  });
  await baseImage(server, "base:1");
  await runShop(t, server);
  if (files) await runFiles(t, server);
}

async function inFolder(
  work: (folder: string) => Promise<void>,
  dir?: string,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-compose-engine-", dir });
  try {
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const DOCKER = {
  root: true,
  commands: [...TOOLS, "dockerd", "docker", "unshare", "nsenter", "runc"],
};

e2eTest("compose on Docker", DOCKER, (t) =>
  inFolder(async (folder) => {
    await using daemon = await startDockerd(folder, { network: "own" });
    using _network = daemon.enter();
    const env = { SVC_DEPLOY_BACKEND: "dockerhost", DOCKER_HOST: daemon.host };
    // This daemon has mounts of its own, and sees none that the server makes: its data is in memory already.
    await inFolder((dataDir) => run(t, env, { dataDir }), "/dev/shm");
  }));

const PODMAN = { root: true, commands: [...TOOLS, ...PODMAN_COMMANDS], files: PODMAN_FILES };

e2eTest("compose on podman", PODMAN, (t) =>
  (async () => {
    await using daemon = await startPodman();
    using _network = daemon.enter();
    const env = { SVC_DEPLOY_BACKEND: "podman", SVC_PODMAN_SOCKET: daemon.socket };
    // This one has a /dev/shm of its own too, and so sees no secrets.
    await run(t, env, { files: false });
  })());

const CONTAINERD = {
  root: true,
  commands: [...TOOLS, "containerd", "ctr", "runc", "perl", "flock", "umoci"],
};

e2eTest("compose on containerd", CONTAINERD, (t) =>
  inFolder(async (folder) => {
    await using daemon = await startContainerd(folder);
    await run(t, { SVC_DEPLOY_BACKEND: "containerd", CONTAINERD_ADDRESS: daemon.address });
  }));
