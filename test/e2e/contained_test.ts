/** Servers in containers: what they find out of their place, from the engine and without one. */
import assert from "node:assert/strict";
import { BASE, type Engine, NEEDS, startEngine } from "./builder_engine.ts";
import { eventually } from "../waits.ts";
import { e2eTest, EXECUTABLE, freePort } from "./harness.ts";

/** Runs `svc serve` in a container of the base image; gives the container's name. */
async function serveInside(
  { daemon }: Engine,
  name: string,
  { flags = [], env = {}, port = 5000, before = "true" }: {
    flags?: string[];
    env?: Record<string, string>;
    port?: number;
    /** A command that runs first. */
    before?: string;
  },
): Promise<string> {
  await daemon.docker(
    ...["run", "-d", "--name", name, "-v", `${EXECUTABLE}:/usr/bin/svc:ro`, ...flags],
    ...Object.entries(env).flatMap(([key, value]) => ["-e", `${key}=${value}`]),
    ...[BASE, "sh", "-c", `${before}; exec svc serve --addr 127.0.0.1:${port}`],
  );
  return name;
}

/** What the container printed, and its exit code where it has ended. */
async function tell({ daemon }: Engine, name: string): Promise<{ log: string; code?: number }> {
  const { stdout, stderr } = await daemon.docker("logs", name);
  const state = await daemon.docker("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", name);
  const [status, code] = state.stdout.trim().split(" ");
  return { log: stdout + stderr, ...status === "exited" && { code: Number(code) } };
}

const REFUSAL = /Cannot serve with SVC_DEPLOY_BACKEND=bare: .* has a network of its own/;

e2eTest(
  "bare in a container: a network of its own is refused, unless it is said to be meant",
  NEEDS,
  async (t) => {
    await using engine = await startEngine();
    const cases: [name: string, network: string, env: Record<string, string>, starts: boolean][] = [
      ["refused", "none", {}, false],
      ["acknowledged", "none", { SVC_HOST_NETWORK: "0" }, true],
      ["declared", "none", { SVC_HOST_NETWORK: "1" }, true],
      ["host", "host", {}, true],
    ];
    for (const [name, network, env, starts] of cases) {
      await t.step(name, async () => {
        await serveInside(engine, name, {
          flags: ["--privileged", "--network", network, "-v", "/var/lib/svc"],
          env: { SVC_DEPLOY_BACKEND: "bare", ...env },
          port: freePort(),
          before: "cp /opt/kept/runc /usr/sbin/runc",
        });
        const listening = /"msg":"listening on /;
        await eventually(`${name} ends or listens`, async () => {
          const { log, code } = await tell(engine, name);
          return code !== undefined || listening.test(log);
        });
        const { log, code } = await tell(engine, name);
        if (starts) assert.match(log, listening);
        else assert.notEqual(code ?? 0, 0, log);
        assert.equal(REFUSAL.test(log), !starts, log);
        assert.equal(
          /reachable inside this server's container only/.test(log),
          name === "acknowledged",
        );
        await engine.daemon.docker("rm", "-fv", name);
      });
    }
  },
);

/** Waits until the server in the container listens. */
async function listening(engine: Engine, name: string): Promise<void> {
  const over = await eventually("it ends or listens", async () => {
    const { log, code } = await tell(engine, name);
    return (code !== undefined || /"msg":"listening on /.test(log)) && { log, code };
  });
  assert.equal(over.code, undefined, over.log);
}

e2eTest(
  "a server in a container mounts folders of the host, by the host's names",
  NEEDS,
  async (t) => {
    await using engine = await startEngine();
    const shared = `${engine.folder}/shared`;
    await Deno.mkdir(`${shared}/x`, { recursive: true });
    await Deno.writeTextFile(`${shared}/x/file`, "of the host\n");
    await Deno.symlink("/etc", `${shared}/out`);
    const port = freePort();
    await serveInside(engine, "server", {
      flags: [
        ...["--network", "host", "-v", `${engine.folder}/docker/docker.sock:/run/engine.sock`],
        ...["-v", `${shared}:/data`],
      ],
      env: {
        DOCKER_HOST: "unix:///run/engine.sock",
        SVC_ALLOW_BIND_SOURCES: `${shared}:/data`,
        SVC_BUILDER_AUTO: "off",
      },
      port,
    });
    await listening(engine, "server");
    const deploy = async (source: string) => {
      const spec = { name: "app", image: BASE, command: ["sleep", "1000"] };
      const answer = await fetch(`http://127.0.0.1:${port}/.svc/v1/deployments/app`, {
        method: "PUT",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ ...spec, mounts: [{ source, target: "/mnt" }] }),
      });
      return await answer.text();
    };
    await t.step("what the server sees at another place", async () => {
      const told = await deploy(`${shared}/x`);
      const { stdout: id } = await engine.daemon.docker(
        "ps",
        "-q",
        "-f",
        "ancestor=" + BASE,
        "-f",
        "label=svc.deployment",
      );
      const read = await engine.daemon.docker("exec", id.trim(), "cat", "/mnt/file")
        .catch((error) => assert.fail(`${error}\n${told}`));
      assert.equal(read.stdout, "of the host\n");
    });
    await t.step("the server's own names are other folders on the host: refused", async () => {
      assert.match(await deploy("/data/x"), /its source is not allowed/);
    });
    await t.step("a link out of the folder is refused", async () => {
      assert.match(await deploy(`${shared}/out`), /Cannot mount \/etc .* not allowed/);
    });
  },
);

/** Runs the client in the server's container. */
async function svcInside({ daemon }: Engine, name: string, port: number, ...args: string[]) {
  const server = ["-e", `SVC_SERVER=http://127.0.0.1:${port}`];
  return await daemon.docker("exec", ...server, name, "svc", ...args);
}

e2eTest(
  "a server in a container that cannot mount builds in a builder that it reaches",
  NEEDS,
  async (t) => {
    await using engine = await startEngine();
    for (const network of ["host", "none"]) {
      await t.step(`network ${network}`, async () => {
        const name = `front-${network}`;
        const port = freePort();
        await serveInside(engine, name, {
          flags: [
            ...["--network", network, "-v", `${engine.folder}/docker/docker.sock:/run/engine.sock`],
            ...["-v", "/bin/busybox:/context/busybox:ro"],
          ],
          env: {
            DOCKER_HOST: "unix:///run/engine.sock",
            SVC_BUILDER_BASE_IMAGE: BASE,
            SVC_STORAGE: "/var/lib/svc/registry",
          },
          port,
        });
        await listening(engine, name);
        const recipe =
          'FROM scratch\\nCOPY busybox /busybox\\nRUN --network=none ["/busybox","id"]\\n';
        await engine.daemon.docker(
          "exec",
          name,
          "sh",
          "-c",
          `printf '${recipe}' > /context/Dockerfile`,
        );
        const built = await svcInside(engine, name, port, "build", "-t", "app:v1", "/context")
          .catch(async (error) => {
            throw new Error(`${error.message}\n${(await tell(engine, name)).log}`);
          });
        assert.match(built.stdout, /app:v1@sha256:/);
        const own = await engine.daemon.docker("inspect", "-f", "{{.Id}}", name);
        const builder = await engine.daemon
          .docker("inspect", "-f", "{{.HostConfig.NetworkMode}}", "svc-builder");
        const expected = network === "host" ? "host" : `container:${own.stdout.trim()}`;
        assert.equal(builder.stdout.trim(), expected);
        await engine.daemon.docker("rm", "-fv", name);
      });
    }
  },
);
