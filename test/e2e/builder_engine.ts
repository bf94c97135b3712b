/** What the tests of the containerized builder share: a daemon, and servers of a user who may not mount. */
import { type DockerdOptions, type DockerdPeer, startDockerd } from "../peers/dockerd.ts";
import { startPodman } from "../peers/podman.ts";
import { writeRuntime } from "../peers/runtime.ts";
import { importHostImage } from "../peers/host_image.ts";
import { EXECUTABLE, type RunOutput, type Server, startServer } from "./harness.ts";

export const NEEDS = {
  root: true,
  commands: ["conmon", "dockerd", "docker", "ip", "iptables", "runc", "setpriv", "skopeo", "ss"],
  files: ["/bin/busybox", "/usr/lib/cni/bridge"],
};

/** A user who may mount nothing, in the group that may use the daemon. */
const USER = 65534;
const GROUP = 64242;
/** Another user of the host, who may not use it. */
const STRANGER = 65533;

/** Arguments of setpriv that run a command as {@linkcode STRANGER}. */
export const AS_STRANGER = [
  ...["--reuid", String(STRANGER), "--regid", String(STRANGER), "--clear-groups"],
];

/** As a package manager, as far as svc uses one. */
const INSTALLER = `#!/bin/sh
case "$*" in *" runc") cp /opt/kept/runc /usr/sbin/runc ;; esac
`;

/** The base: runc is not in it, but can be installed. */
export const BASE = "svc-test-base:1";
/** The base without runc, and without a way to install it. */
export const BARE_BASE = "svc-test-base:without";

export interface AnyEngine extends AsyncDisposable {
  folder: string;
  /** Path of its socket. */
  socket: string;
  /** Its own client; throws where it fails. */
  run: (...args: string[]) => Promise<RunOutput>;
  /** The variables by which a server uses it. */
  env: Record<string, string>;
  /** The executable as {@linkcode USER}. */
  asUser: string;
}

export interface Engine extends AnyEngine {
  daemon: DockerdPeer;
}

async function script(path: string, text: string): Promise<string> {
  await Deno.writeTextFile(path, text);
  await Deno.chmod(path, 0o755);
  return path;
}

/** What is the same for every engine: the base images, and a user who may use it. */
async function prepare(
  made: AsyncDisposableStack,
  folder: string,
  { repository = "", ...engine }: Pick<AnyEngine, "socket" | "run" | "env"> & {
    /** What the engine's API puts before plain names, where its client puts something else. */
    repository?: string;
  },
): Promise<AnyEngine> {
  await Deno.chown(engine.socket, 0, GROUP);
  await Deno.chmod(engine.socket, 0o660);
  const common = { docker: engine.run, folder: `${folder}/image` };
  const files = {
    "usr/bin/apt-get": { script: INSTALLER },
    "opt/kept/runc": { from: "runc" },
  };
  // conmon: for servers that run containers themselves.
  await importHostImage({ ...common, name: repository + BASE, files, programs: ["conmon"] });
  await importHostImage({ ...common, name: repository + BARE_BASE });
  await Deno.mkdir(`${folder}/home`);
  await Deno.chown(`${folder}/home`, USER, USER);
  const asUser = await script(
    `${folder}/svc-as-user`,
    `#!/bin/sh\nHOME=${folder}/home XDG_CACHE_HOME=${folder}/home exec setpriv --reuid ${USER} ` +
      `--regid ${USER} --groups ${GROUP} ${EXECUTABLE} "$@"\n`,
  );
  const stack = made.move();
  return { folder, ...engine, asUser, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

async function engineFolder(made: AsyncDisposableStack): Promise<[string, string]> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-builder-" });
  made.defer(() => Deno.remove(folder, { recursive: true }));
  await Deno.chmod(folder, 0o755);
  return [folder, await writeRuntime(`${folder}/runtime`)];
}

/** A daemon that starts privileged containers and has the base images, and a user who may use it. */
export async function startEngine(
  options: Pick<DockerdOptions, "version" | "store"> = {},
): Promise<Engine> {
  await using made = new AsyncDisposableStack();
  const [folder, runtime] = await engineFolder(made);
  const daemon = made.use(
    await startDockerd(`${folder}/docker`, {
      ...options,
      config: {
        ...options.store !== "containerd" && { "storage-driver": "overlay2" },
        runtimes: { test: { path: runtime } },
        "default-runtime": "test",
      },
    }),
  );
  await Deno.chmod(`${folder}/docker`, 0o755);
  const socket = `${folder}/docker/docker.sock`;
  const env = { SVC_DEPLOY_BACKEND: "", DOCKER_HOST: daemon.host };
  const engine = await prepare(made, folder, { socket, run: daemon.docker, env });
  return { ...engine, daemon };
}

/** The same by podman; the test is in its network until it is disposed of. */
export async function startPodmanEngine(): Promise<AnyEngine> {
  await using made = new AsyncDisposableStack();
  const [folder, runtime] = await engineFolder(made);
  const peer = made.use(await startPodman({ runtime }));
  made.use(peer.enter());
  const { socket, podman: run } = peer;
  const env = { SVC_DEPLOY_BACKEND: "podman", SVC_PODMAN_SOCKET: socket };
  return await prepare(made, folder, { socket, run, env, repository: "docker.io/library/" });
}

/** A server that may not mount, on data of its own. */
export async function startFront(
  { folder, env: engine, asUser }: AnyEngine,
  name: string,
  env: Record<string, string> = {},
  { storage = true }: {
    /** The registry has a storage of its own; else it shows the engine's images. */
    storage?: boolean;
  } = {},
): Promise<Server> {
  const dataDir = `${folder}/${name}`;
  await Deno.mkdir(dataDir);
  await Deno.chown(dataDir, USER, USER);
  return await startServer({
    executable: asUser,
    dataDir,
    args: storage ? ["--storage", `${dataDir}/registry`] : [],
    env: {
      ...engine,
      SVC_BUILDER_BASE_IMAGE: BASE,
      ...env,
    },
  });
}
