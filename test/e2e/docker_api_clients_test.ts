/**
 * Programs that use docker's API against `svc daemon docker` and a server on bare: dockerode, testcontainers for node
 * and devcontainers' command line, from npm at the first use, run by Deno; docker-py, as Debian has it.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { CLIENTS_READY, PROGRAMS, startDockerApi } from "./docker_api.ts";
import { baseImage, e2eTest, startServer } from "./harness.ts";

const PYTHON = "/usr/bin/python3";
/** Debian's own, for its own Python. */
const DOCKER_PY = "/usr/lib/python3/dist-packages/docker/__init__.py";

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "skopeo"],
  files: [CLIENTS_READY, DOCKER_PY],
};

/** Builds, creates, attaches, waits, and cleans up. */
const DOCKERODE = `
import Docker from "npm:dockerode@5.0.1";
import { PassThrough } from "node:stream";
const docker = new Docker({ socketPath: Deno.args[0] });
const context = { context: Deno.args[1], src: ["Dockerfile", "hello.txt"] };
const stream = await docker.buildImage(context, { t: "ode:1", buildargs: { WHO: "ode" } });
const told = await new Promise((resolve, reject) =>
  docker.modem.followProgress(stream, (error, all) => error ? reject(error) : resolve(all)));
const { aux: { ID: id } } = told.find(({ aux }) => aux);
const container = await docker.createContainer({ name: "ode", Image: "ode:1", Cmd: ["cat", "/srv/who"] });
const attached = await container.attach({ stream: true, stdout: true, stderr: true });
const output = new PassThrough();
let said = "";
output.on("data", (data) => said += data);
docker.modem.demuxStream(attached, output, output);
await container.start();
const { StatusCode: code } = await container.wait();
await container.remove();
const inspected = await docker.getImage("ode:1").inspect();
await docker.getImage("ode:1").remove();
const missing = await docker.getImage("ode:1").inspect().catch(({ statusCode }) => statusCode);
console.log(JSON.stringify({ same: id === inspected.Id, said, code, missing }));
Deno.exit(0);
`;

const TESTCONTAINERS = `
import { GenericContainer, Wait } from "npm:testcontainers@12.2.0";
const image = await GenericContainer.fromDockerfile(Deno.args[1]).withBuildArgs({ WHO: "tc" })
  .build("tc:1", { deleteOnExit: false });
const container = await image.withExposedPorts(8080)
  .withStartupTimeout(300_000).withWaitStrategy(Wait.forHttp("/hello.txt", 8080)).start();
const page = async (path) =>
  await (await fetch(\`http://\${container.getHost()}:\${container.getMappedPort(8080)}/\${path}\`)).text();
const who = await page("who");
const { exitCode, output } = await container.exec(["cat", "/srv/hello.txt"]);
await container.copyContentToContainer([{ content: "copied", target: "/srv/new" }]);
const copied = await page("new");
await container.stop();
console.log(JSON.stringify({ who, exitCode, output, copied }));
Deno.exit(0);
`;

/** Runs, executes, copies, follows events; networks and volumes. */
const PYTHON_SCRIPT = `
import docker, io, json, tarfile
client = docker.from_env(timeout=300)
said = client.containers.run("base:1", ["echo", "hi"], remove=True).decode()
network = client.networks.create("py", labels={"a": "b"})
volume = client.volumes.create("py")
events = client.events(decode=True, filters={"container": "py", "event": "start"})
box = client.containers.run(
    "base:1", ["sh", "-c", "echo begun; exec sleep 1000"], name="py", detach=True, network="py",
    volumes={"py": {"bind": "/data", "mode": "rw"}}, labels={"x": "y"}, stop_signal="KILL", mem_limit="64m")
started = next(events)["Actor"]["Attributes"]["name"]
first = next(iter(box.logs(stream=True, follow=True))).decode()
code, output = box.exec_run(["sh", "-c", "echo out; echo err >&2; exit 3"], demux=True)
archive = io.BytesIO()
with tarfile.open(fileobj=archive, mode="w") as tar:
    entry = tarfile.TarInfo("in")
    entry.size = 6
    tar.addfile(entry, io.BytesIO(b"copied"))
box.put_archive("/data", archive.getvalue())
parts, stat = box.get_archive("/data/in")
with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as tar:
    copied = tar.extractfile("in").read().decode()
changed = sorted(one["Path"] for one in box.diff() or [])
box.reload()
seen = [box.status, box.labels["x"], list(box.attrs["NetworkSettings"]["Networks"])]
listed = [one.name for one in client.containers.list(filters={"label": "x=y"})]
network.reload()
users = [one.name for one in network.containers]
try:
    client.containers.run("base:1", "true", cpuset_cpus="0")
    refused = None
except docker.errors.APIError as error:
    refused = error.explanation
box.remove(force=True, v=True)
network.remove()
volume.remove()
left = [len(client.containers.list(all=True)), [one.name for one in client.volumes.list()]]
client.close()
print(json.dumps({
    "said": said, "started": started, "first": first, "code": code, "output": [part.decode() for part in output],
    "copied": copied, "size": stat["size"], "changed": changed, "seen": seen, "listed": listed, "users": users,
    "refused": refused, "left": left}))
`;

const DEVCONTAINERS = "npm:@devcontainers/cli@0.89.0";
const LIBRARIES = ["npm:dockerode@5.0.1", "npm:testcontainers@12.2.0", DEVCONTAINERS];
const DEV = ["--docker-path", PROGRAMS.docker28, "--workspace-folder"];
const ALONE = ["--quiet", "--no-config", "--no-lock"];

/** True where npm cannot be reached, which is said. Under `CI=true` the test fails instead. */
async function withoutLibraries(): Promise<boolean> {
  if (Deno.env.get("CI") === "true") return false;
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: ["cache", ...ALONE, ...LIBRARIES],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).output();
  if (!success) console.error(`skipped: needs ${LIBRARIES.join(" and ")}`);
  return !success;
}

async function runScript(text: string, socket: string, folder: string): Promise<unknown> {
  const path = join(folder, "client.mjs");
  await Deno.writeTextFile(path, text);
  const stdout = await run([path, socket, folder], socket, folder);
  return JSON.parse(stdout.trim().split("\n").at(-1)!);
}

/** The script's last line, as JSON. */
async function runPython(text: string, socket: string): Promise<unknown> {
  const { code, stdout, stderr } = await new Deno.Command(PYTHON, {
    args: ["-c", text],
    env: { DOCKER_HOST: `unix://${socket}` },
    stdin: "null",
    signal: AbortSignal.timeout(600_000),
  }).output();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
  return JSON.parse(new TextDecoder().decode(stdout).trim().split("\n").at(-1)!);
}

async function run(args: string[], socket: string, folder: string): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", ...ALONE, ...args],
    env: {
      DOCKER_HOST: `unix://${socket}`,
      DOCKER_CONFIG: folder,
      TESTCONTAINERS_RYUK_DISABLED: "true",
    },
    stdin: "null",
    // The first one downloads its libraries.
    signal: AbortSignal.timeout(600_000),
  }).output();
  const said = new TextDecoder().decode(stdout);
  assert.equal(code, 0, `${said}${new TextDecoder().decode(stderr)}`);
  return said;
}

e2eTest("docker API: docker-py of Debian", NEEDS, async () => {
  await using server = await startServer();
  await baseImage(server, "base:1");
  await using api = await startDockerApi(server);
  const { refused, ...told } = await runPython(PYTHON_SCRIPT, api.path) as Record<string, unknown>;
  assert.deepEqual(told, {
    ...{ said: "hi\n", started: "py", first: "begun\n", code: 3, output: ["out\n", "err\n"] },
    ...{ copied: "copied", size: 6, changed: [], seen: ["running", "y", ["py"]] },
    ...{ listed: ["py"], users: ["py"], left: [0, []] },
  });
  assert.match(String(refused), /HostConfig\.CpusetCpus cannot be honoured/);
});

e2eTest("docker API: dockerode, testcontainers, dev containers", NEEDS, async (t) => {
  if (await withoutLibraries()) return;
  await using server = await startServer();
  await baseImage(server, "base:1");
  await using api = await startDockerApi(server);
  const folder = await Deno.makeTempDir({ prefix: "svc-docker-clients-" });
  try {
    await Deno.writeTextFile(join(folder, "hello.txt"), "hello");
    await Deno.writeTextFile(
      join(folder, "Dockerfile"),
      "FROM base:1\nARG WHO\nCOPY hello.txt /srv/\nRUN printf $WHO > /srv/who\nSTOPSIGNAL SIGKILL\n",
    );
    await t.step("dockerode builds, creates, attaches, waits, removes", async () => {
      assert.deepEqual(await runScript(DOCKERODE, api.path, folder), {
        ...{ same: true, said: "ode", code: 0, missing: 404 },
      });
    });
    await t.step("testcontainers builds, starts, waits, executes, copies, stops", async () => {
      assert.deepEqual(await runScript(TESTCONTAINERS, api.path, folder), {
        ...{ who: "tc", exitCode: 0, output: "hello", copied: "copied" },
      });
    });
    await t.step("devcontainers' CLI builds, starts, and runs commands in its folder", async () => {
      await Deno.mkdir(join(folder, ".devcontainer"));
      await Deno.writeTextFile(
        join(folder, ".devcontainer/devcontainer.json"),
        JSON.stringify({
          build: { dockerfile: "../Dockerfile", context: "..", args: { WHO: "dev" } },
          ...{ remoteUser: "root", updateRemoteUserUID: false },
          postCreateCommand: "cp /srv/who made",
        }),
      );
      const cli = (command: string, ...args: string[]) =>
        run([DEVCONTAINERS, command, ...DEV, folder, ...args], api.path, folder);
      assert.match(await cli("up"), /"outcome":"success"/);
      assert.equal(await Deno.readTextFile(join(folder, "made")), "dev");
      assert.match(await cli("exec", "cat", "hello.txt"), /^hello/m);
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
