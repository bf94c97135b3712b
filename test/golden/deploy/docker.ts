/**
 * Runs cases on a docker daemon by its API: the reference. `DOCKER_HOST` is a unix socket; the images are
 * loaded with the client `docker`, so the daemon has the containerd image store (docker 28 or newer).
 */
import { join } from "node:path";
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import { parseDuration } from "../../../lib/base/duration.ts";
import { type Case, nameOf, type Outcome, PATIENCE, type Runner } from "./case.ts";
import { tagOf, writeImages } from "./images.ts";

const IMAGE = (tag: string) => `docker.io/library/${tag}:latest`;

const ms = (text: string | undefined) => text === undefined ? undefined : parseDuration(text) * 1e6;

/** The body of a container's creation: what `docker run` sends for the same settings. */
function creation(test: Case) {
  const spec: Partial<DeploySpec> = test.spec ?? {};
  const { resources = {}, healthcheck } = spec;
  const network = spec.networks?.[0]?.name;
  const ports = Object.fromEntries(
    [...spec.ports ?? []].map(({ container, protocol }) => [`${container}/${protocol}`, {}]),
  );
  const tmpfs = Object.fromEntries(
    (spec.tmpfs ?? []).map((text) => [text.split(":")[0], text.split(":").slice(1).join(":")]),
  );
  return {
    Image: IMAGE(tagOf(test)),
    Cmd: spec.command,
    Entrypoint: spec.entrypoint,
    Env: Object.entries(spec.env ?? {}).map(([name, value]) => `${name}=${value}`),
    User: spec.user,
    WorkingDir: spec.workingDir,
    Hostname: spec.hostname,
    Labels: spec.labels,
    StopSignal: spec.stopSignal,
    Tty: spec.tty,
    OpenStdin: spec.stdinOpen,
    ExposedPorts: ports,
    Healthcheck: healthcheck && {
      Test: healthcheck.test,
      Interval: ms(healthcheck.interval),
      Timeout: ms(healthcheck.timeout),
      StartPeriod: ms(healthcheck.startPeriod),
      Retries: healthcheck.retries,
    },
    HostConfig: {
      Privileged: spec.privileged,
      ReadonlyRootfs: spec.readOnly,
      Init: spec.init,
      CapAdd: spec.capAdd,
      CapDrop: spec.capDrop,
      SecurityOpt: spec.securityOpt,
      GroupAdd: spec.groupAdd,
      Sysctls: spec.sysctls,
      ExtraHosts: Object.entries(spec.extraHosts ?? {}).map(([host, ip]) => `${host}:${ip}`),
      Dns: spec.dnsServers,
      DnsSearch: spec.dnsSearch,
      DnsOptions: spec.dnsOptions,
      Ulimits: spec.ulimits?.map(({ name, soft, hard }) => ({
        Name: name,
        Soft: soft,
        Hard: hard,
      })),
      Tmpfs: tmpfs,
      Devices: spec.devices?.map((text) => {
        const [outside, inside = outside, access = "rwm"] = text.split(":");
        return { PathOnHost: outside, PathInContainer: inside, CgroupPermissions: access };
      }),
      ShmSize: spec.shmSize,
      PidMode: spec.pidMode,
      IpcMode: spec.ipcMode,
      NetworkMode: network,
      Memory: resources.memoryLimit,
      MemoryReservation: resources.reservedMemory,
      NanoCpus: resources.cpuLimit && Math.round(resources.cpuLimit * 1e9),
      CpuShares: resources.reservedCpu && Math.round(resources.reservedCpu * 1024),
      Binds: [
        ...(spec.mounts ?? []).map((mount) =>
          `${mount.source}:${mount.target}${mount.readOnly ? ":ro" : ""}`
        ),
        ...(spec.volumes ?? []).map((volume) =>
          `${nameOf(test)}-${volume.name}:${volume.target}${volume.readOnly ? ":ro" : ""}`
        ),
      ],
    },
  };
}

/** Output of a container or a command: framed, unless it has a terminal. */
function unframed(bytes: Uint8Array, tty?: boolean): string {
  const decoder = new TextDecoder();
  if (tty) return decoder.decode(bytes);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let text = "";
  for (let at = 0; at + 8 <= bytes.length;) {
    const size = view.getUint32(at + 4);
    text += decoder.decode(bytes.subarray(at + 8, at + 8 + size));
    at += 8 + size;
  }
  return text;
}

class Docker {
  #client: Deno.HttpClient;

  constructor(socket: string) {
    this.#client = Deno.createHttpClient({ proxy: { transport: "unix", path: socket } });
  }

  async call(method: string, path: string, body?: unknown): Promise<Uint8Array> {
    const response = await fetch(`http://docker/v1.44${path}`, {
      method,
      client: this.#client,
      ...(body !== undefined &&
        { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
    const bytes = await response.bytes();
    if (!response.ok) throw new Error(`${method} ${path}: ${new TextDecoder().decode(bytes)}`);
    return bytes;
  }

  async json<T>(method: string, path: string, body?: unknown): Promise<T> {
    return JSON.parse(new TextDecoder().decode(await this.call(method, path, body)));
  }

  async logs(id: string, tty?: boolean): Promise<string> {
    return unframed(await this.call("GET", `/containers/${id}/logs?stdout=1&stderr=1`), tty);
  }
}

async function steps(docker: Docker, test: Case, id: string): Promise<Outcome> {
  const { tty } = test.spec ?? {};
  const reports = async (count: number) => {
    for (const until = Date.now() + PATIENCE;;) {
      const parts = (await docker.logs(id, tty)).split(/^@@ end\r?$/m);
      if (parts.length > count) return parts;
      if (Date.now() > until) throw new Error(`${test.name}: no report\n${parts.join("")}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  await docker.call("POST", `/containers/${id}/start`);
  const outcome: Outcome = { report: (await reports(1))[0] };
  if (test.exec) {
    const { user, env, workingDir, tty: terminal } = test.exec;
    const made = await docker.json<{ Id: string }>("POST", `/containers/${id}/exec`, {
      Cmd: ["/probe", "-e"],
      AttachStdout: true,
      AttachStderr: true,
      Tty: terminal,
      User: user,
      WorkingDir: workingDir,
      Env: Object.entries(env ?? {}).map(([name, value]) => `${name}=${value}`),
    });
    const bytes = await docker.call("POST", `/exec/${made.Id}/start`, { Tty: terminal });
    outcome.exec = unframed(bytes, terminal);
  }
  if (test.then === "restart") {
    await docker.call("POST", `/containers/${id}/restart?t=5`);
    outcome.again = (await reports(2))[1];
  } else if (test.then) {
    if (test.then === "stop") await docker.call("POST", `/containers/${id}/stop?t=2`);
    const end = await docker.json<{ StatusCode: number }>("POST", `/containers/${id}/wait`);
    outcome.exit = end.StatusCode;
    outcome.report += (await docker.logs(id, tty)).split(/^@@ end\r?$/m)[1] ?? "";
  }
  return outcome;
}

/** Loads the images of the cases into the daemon. `folder` is for them. */
export async function dockerRunner(
  socket: string,
  folder: string,
  cases: readonly Case[],
  host: Record<string, string>,
): Promise<Runner> {
  const layout = join(folder, "images");
  await writeImages(layout, cases, (tag) => ({
    "io.containerd.image.name": IMAGE(tag),
    "org.opencontainers.image.ref.name": "latest",
  }));
  const archive = join(folder, "images.tar");
  await new Deno.Command("tar", { args: ["-cf", archive, "-C", layout, "."] }).output();
  const load = await new Deno.Command("docker", {
    args: ["-H", `unix://${socket}`, "load", "-q", "-i", archive],
  }).output();
  if (!load.success) throw new Error(new TextDecoder().decode(load.stderr));
  const docker = new Docker(socket);
  return {
    host,
    async run(test) {
      const name = nameOf(test);
      try {
        const made = await docker.json<{ Id: string }>(
          "POST",
          `/containers/create?name=${name}`,
          creation(test),
        );
        return await steps(docker, test, made.Id);
      } catch (error) {
        return { fails: (error as Error).message };
      } finally {
        await docker.call("DELETE", `/containers/${name}?force=1&v=1`).catch(() => {});
      }
    },
  };
}
