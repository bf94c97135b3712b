/**
 * What an image and features say of a dev container (the label `devcontainer.metadata`): merged as the field's own
 * program merges it, and done.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import {
  entriesOf,
  entryOf,
  METADATA_LABEL,
  withEntries,
} from "../../lib/compose/devcontainer/metadata.ts";
import { type Fields, LIFECYCLE, readDevcontainer } from "../../lib/compose/devcontainer/read.ts";
import { eventually } from "../waits.ts";
import { ok, Project } from "./compose_scenarios.ts";
import { CLIENTS_READY, PROGRAMS, startDockerApi } from "./docker_api.ts";
import { baseImage, e2eTest, type Server, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables", "busybox", "skopeo"] };
const DEVCONTAINERS = "npm:@devcontainers/cli@0.89.0";

/** What the image says: twice, as one that was built upon another does. */
const LABEL = [
  {
    ...{ id: "first", init: true, capAdd: ["CHOWN", "KILL"], entrypoint: "echo first >> /began" },
    mounts: ["source=one,target=/data,type=volume", "source=kept,target=/kept,type=volume"],
    onCreateCommand: "echo image >> /log",
  },
  {
    ...{ remoteUser: "65534", containerUser: "0", forwardPorts: [3000, "db:5432"] },
    ...{ remoteEnv: { A: "image", B: "image" }, containerEnv: { C: "image" } },
    postCreateCommand: { one: "echo made >> /log" },
  },
];

const FEATURE = {
  ...{ id: "own", capAdd: ["KILL", "SYS_PTRACE"], entrypoint: "echo feature >> /began" },
  mounts: [{ source: "two-${devcontainerId}", target: "/data", type: "volume" }],
  containerEnv: { FEATURE: "installed" },
  postCreateCommand: "echo feature >> /log",
};

const FILE = {
  ...{ image: "labelled:1", features: { "./own": {} }, workspaceMount: "", workspaceFolder: "/" },
  ...{ remoteEnv: { B: "file" }, capAdd: ["CHOWN"], forwardPorts: [3000] },
  postCreateCommand: ["sh", "-c", "echo file $A $B >> /log"],
};

async function prepare(server: Server, folder: string): Promise<string> {
  const write = async (path: string, value: unknown) => {
    await Deno.mkdir(join(folder, path, ".."), { recursive: true });
    await Deno.writeTextFile(
      join(folder, path),
      typeof value === "string" ? value : JSON.stringify(value),
    );
  };
  const label = JSON.stringify(JSON.stringify(LABEL)).replaceAll("$", "\\$");
  const files = `RUN touch /log /began && chmod 666 /log /began`;
  await write("image/Dockerfile", `FROM base:1\n${files}\nLABEL ${METADATA_LABEL}=${label}\n`);
  await write(".devcontainer/devcontainer.json", FILE);
  await write(".devcontainer/own/devcontainer-feature.json", FEATURE);
  await write(".devcontainer/own/install.sh", "#!/bin/sh\ntrue\n");
  ok(await server.svc(["build", "-t", "labelled:1", join(folder, "image")]));
  return join(folder, ".devcontainer/devcontainer.json");
}

/** What the field's own program makes of the folder. */
async function merged(server: Server, folder: string) {
  await using api = await startDockerApi(server);
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "--quiet", "--no-config", "--no-lock", DEVCONTAINERS, "read-configuration"],
      ...["--include-merged-configuration", "--docker-path", PROGRAMS.docker28],
      ...["--workspace-folder", folder],
    ],
    env: { DOCKER_HOST: `unix://${api.path}`, DOCKER_CONFIG: folder },
    stdin: "null",
    // The first one downloads it.
    signal: AbortSignal.timeout(600_000),
  }).output();
  const said = new TextDecoder().decode(stdout);
  assert.equal(code, 0, `${said}${new TextDecoder().decode(stderr)}`);
  return JSON.parse(said).mergedConfiguration;
}

e2eTest(
  "compose: an image's and features' metadata is merged as dev containers' own program does",
  { ...NEEDS, files: [CLIENTS_READY] },
  async () => {
    await using server = await startServer();
    await baseImage(server, "base:1");
    await using project = await Project.open(server);
    const dev = await readDevcontainer(await prepare(server, project.folder), {}, { asked: true });
    const wanted = await merged(server, project.folder);
    const { fields, commands, entrypoints } = withEntries(dev, [
      ...entriesOf(JSON.stringify(LABEL), dev, "the image"),
      entryOf(FEATURE, dev, "the feature"),
    ]);
    const keys = [
      ...["init", "remoteUser", "containerUser", "remoteEnv", "containerEnv"],
      ...["capAdd", "overrideCommand"],
    ] as (keyof Fields)[];
    for (const key of keys) assert.deepEqual(fields[key], wanted[key], key);
    assert.deepEqual(entrypoints, wanted.entrypoints);
    for (const name of LIFECYCLE) {
      const own = commands.map((one) => one[name]).filter((one) => one !== undefined);
      assert.deepEqual(own, wanted[`${name}s`], name);
    }
    assert.deepEqual(fields.forwardPorts, wanted.forwardPorts.map(String));
    const places = (mounts: (string | { source?: string; target: string })[]) =>
      mounts.map((one) =>
        typeof one === "string"
          ? one.split(",").slice(0, 2).join()
          : `source=${one.source?.slice(0, 4)},target=${one.target}`
      );
    assert.deepEqual(places(fields.mounts!), places(wanted.mounts));
  },
);

e2eTest("compose: what a dev container's image and features ask for is done", NEEDS, async (t) => {
  await using server = await startServer({ env: { SVC_ALLOW_BIND_SOURCES: "/tmp" } });
  await baseImage(server, "base:1");
  await using project = await Project.open(server);
  const file = await prepare(server, project.folder);
  const inside = async (command: string, ...flags: string[]) =>
    ok(await project.run("exec", "-T", ...flags, "devcontainer", "sh", "-c", command));

  await t.step("rights beyond docker's usual ones need the server's leave", async () => {
    const up = await project.run("--devcontainer", "up", "-d");
    assert.notEqual(up.code, 0);
    assert.match(up.stderr, /gets more rights than .* asks for: KILL, SYS_PTRACE/);
    assert.match(up.stderr, /SVC_ALLOW_PRIVILEGED/);
  });

  await t.step("commands, user, variables, entrypoints, volumes", async () => {
    const own = join(project.folder, ".devcontainer/own/devcontainer-feature.json");
    await Deno.writeTextFile(own, JSON.stringify({ ...FEATURE, capAdd: [] }));
    await Deno.writeTextFile(file, JSON.stringify({ ...FILE, forwardPorts: [] }));
    ok(await project.run("--devcontainer", "up", "-d"));
    assert.equal(await inside("cat /log"), "image\nmade\nfeature\nfile image file\n");
    // Its own process runs them.
    await eventually(
      "the entrypoints have run",
      async () => await inside("cat /began") === "first\nfeature\n",
    );
    assert.equal(await inside("id -u"), "65534\n");
    assert.equal(await inside("id -u", "-u", "0"), "0\n");
    assert.equal(await inside("echo $C $FEATURE"), "image installed\n");
    assert.match(
      await inside("mount"),
      / on \/data .*\n[^]* on \/kept | on \/kept .*\n[^]* on \/data /,
    );
  });

  await t.step(
    "run: another command takes the place of waiting, after the entrypoints",
    async () => {
      const run = ["--devcontainer", "run", "--rm", "-T", "devcontainer", "cat", "/began"];
      assert.equal(ok(await project.run(...run)), "first\nfeature\n");
    },
  );
});
