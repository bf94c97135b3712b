/** What the tests of the containerized builder share: a daemon, and servers of a user who may not mount. */
import { type DockerdOptions, type DockerdPeer, startDockerd } from "../peers/dockerd.ts";
import { PODMAN_USER, type PodmanOptions, startPodman } from "../peers/podman.ts";
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
  /** Who starts servers. */
  user: number;
  /** The executable as that user. */
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
  { repository = "", user = USER, ...engine }: Pick<AnyEngine, "socket" | "run" | "env"> & {
    /** Whose servers are; default {@linkcode USER}. */
    user?: number;
    /** What the engine's API puts before plain names, where its client puts something else. */
    repository?: string;
  },
): Promise<AnyEngine> {
  await Deno.chown(engine.socket, user === USER ? 0 : user, GROUP);
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
  await Deno.chown(`${folder}/home`, user, user);
  const asUser = await script(
    `${folder}/svc-as-user`,
    `#!/bin/sh\nHOME=${folder}/home XDG_CACHE_HOME=${folder}/home exec setpriv --reuid ${user} ` +
      `--regid ${user} --groups ${GROUP} ${EXECUTABLE} "$@"\n`,
  );
  const stack = made.move();
  return { folder, user, ...engine, asUser, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

async function engineFolder(
  made: AsyncDisposableStack,
  program?: string,
): Promise<[string, string]> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-builder-" });
  made.defer(() => Deno.remove(folder, { recursive: true }));
  await Deno.chmod(folder, 0o755);
  return [folder, await writeRuntime(`${folder}/runtime`, program)];
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
export async function startPodmanEngine(
  options: Pick<PodmanOptions, "version" | "rootless"> = {},
): Promise<AnyEngine> {
  await using made = new AsyncDisposableStack();
  // As `startPodman` chooses it.
  const program = options.version === "5" || options.rootless ? "crun" : "runc";
  const [folder, runtime] = await engineFolder(made, program);
  const peer = made.use(await startPodman({ ...options, runtime }));
  made.use(peer.enter());
  const { socket, podman: run } = peer;
  const env = {
    ...{ SVC_DEPLOY_BACKEND: "podman", SVC_PODMAN_SOCKET: socket },
    // Hosts with both versions of control groups have no such limit in the second.
    ...program === "crun" && { SVC_WORKLOAD_PIDS_LIMIT: "0" },
  };
  return await prepare(made, folder, {
    ...{ socket, run, env, repository: "docker.io/library/" },
    ...options.rootless && { user: PODMAN_USER },
  });
}

/** A server that may not mount, on data of its own. */
export async function startFront(
  { folder, env: engine, asUser, user }: AnyEngine,
  name: string,
  env: Record<string, string> = {},
  { storage = true }: {
    /** The registry has a storage of its own; else it shows the engine's images. */
    storage?: boolean;
  } = {},
): Promise<Server> {
  const dataDir = `${folder}/${name}`;
  await Deno.mkdir(dataDir);
  await Deno.chown(dataDir, user, user);
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
