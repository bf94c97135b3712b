/** Steps of svc's builds beside containers of an engine: they reach what is published, and no container by its address. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { busyboxArchive } from "../peers/base_image.ts";
import { type DockerdOptions, startDockerd } from "../peers/dockerd.ts";
import { INCUS_NEEDS, startIncus } from "../peers/incus.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { get } from "../peers/outside.ts";
import { PODMAN_COMMANDS, PODMAN_FILES, startPodman } from "../peers/podman.ts";
import { ALL_TRANSPORTS } from "../contract/transports.ts";
import { withContext } from "./build_helpers.ts";
import {
  baseImage,
  e2eTest,
  freeSubnetBase,
  type RunOutput,
  runTool,
  startServer,
} from "./harness.ts";

const HOST = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "skopeo", "ip", "nsenter", "unshare"],
};
const PORT = 8093;
const BRIDGE = "mine";

interface Engine extends AsyncDisposable {
  command(...args: string[]): Promise<RunOutput>;
  enter(): Disposable;
  /** Options by which a network's bridge is called {@linkcode BRIDGE}. */
  named: string[];
}

/** What a step of a server on bare prints, beside the engine. */
async function printed(
  script: (gateway: string) => string,
  look: () => Promise<void> = () => Promise.resolve(),
): Promise<string> {
  const base = freeSubnetBase();
  await using server = await startServer({
    listen: "0.0.0.0",
    env: { SVC_CNI_SUBNET_BASE: base },
  });
  await baseImage(server, "base:1");
  const Dockerfile = `FROM ${server.host}/base:1\nRUN ${script(`${base}.255.1`)}\n`;
  let output = "";
  await withContext({ Dockerfile }, async (folder) => {
    const { code, stderr } = await server.svc(["build", "--progress", "plain", folder]);
    assert.equal(code, 0, stderr);
    output = stderr;
  });
  await look();
  return output;
}

const SERVES = "mkdir /w; echo reached > /w/index.html; exec httpd -f -p 8080 -h /w";

/** A network as the engine names it, and one with a bridge of another name. */
async function staysApart(starting: Promise<Engine>): Promise<void> {
  await using engine = await starting;
  const { command, named } = engine;
  const addresses: string[] = [];
  for (const [at, options] of [[], named].entries()) {
    await command("network", "create", ...options, `net${at}`);
    await command(
      ...["run", "-d", "--name", `web${at}`, "--network", `net${at}`],
      ...["-p", `${PORT + at}:8080`, "--stop-signal", "KILL", "base:1", "sh", "-c", SERVES],
    );
    const format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    addresses.push((await command("inspect", "-f", format, `web${at}`)).stdout.trim());
  }
  using _network = engine.enter();
  const tries = (gateway: string) =>
    addresses.map((address, at) =>
      `if ${get(address, 8080)}; then echo ${at} by address; else echo ${at} apart; fi; ` +
      `${get(gateway, PORT + at)} && echo ${at} as published`
    ).join("; ");
  const lines = (await printed(tries)).match(/(?<=^#\d+ [\d.]+ )\d .+$/gm);
  assert.deepEqual(lines, ["0 apart", "0 as published", "1 apart", "1 as published"]);
}

async function withImage(engine: Engine, folder: string): Promise<Engine> {
  await busyboxArchive(join(folder, "root.tar"));
  await engine.command("import", join(folder, "root.tar"), "base:1");
  return engine;
}

async function docker(folder: string, options: DockerdOptions): Promise<Engine> {
  const daemon = await startDockerd(join(folder, "daemon"), { network: "own", ...options });
  return {
    ...{ command: daemon.docker, enter: daemon.enter },
    named: ["-o", `com.docker.network.bridge.name=${BRIDGE}`],
    [Symbol.asyncDispose]: () => daemon[Symbol.asyncDispose](),
  };
}

async function podman(version: "4.3" | "5"): Promise<Engine> {
  const peer = await startPodman({ version });
  return {
    ...{ command: peer.podman, enter: peer.enter },
    // 4.3 names all bridges itself.
    named: version === "5" ? ["--interface-name", BRIDGE] : [],
    [Symbol.asyncDispose]: () => peer[Symbol.asyncDispose](),
  };
}

interface Tried {
  name: string;
  commands: string[];
  files: string[];
  start(folder: string): Promise<Engine>;
  /** Only where all engines are asked for. */
  more?: true;
}

const DOCKER = { commands: ["dockerd", "docker"], files: [] };
const ENGINES: Tried[] = [
  { name: "Docker 20.10", ...DOCKER, start: (folder) => docker(folder, {}) },
  {
    name: "Docker 28",
    ...DOCKER,
    files: [UNSTABLE_READY],
    start: (folder) => docker(folder, { version: "28" }),
    more: true,
  },
  {
    name: "podman 4.3",
    commands: PODMAN_COMMANDS,
    files: PODMAN_FILES,
    start: () => podman("4.3"),
    more: true,
  },
  {
    name: "podman 5",
    commands: PODMAN_COMMANDS,
    files: [UNSTABLE_READY],
    start: () => podman("5"),
  },
];

for (const { name, commands, files, start, more } of ENGINES) {
  if (more && !ALL_TRANSPORTS) continue;
  e2eTest(
    `a step reaches containers of ${name} by published ports alone, whatever their bridges are called`,
    { ...HOST, commands: [...HOST.commands, ...commands], files },
    async () => {
      const folder = await Deno.makeTempDir({ prefix: "svc-e2e-networks-" });
      await Deno.chmod(folder, 0o755);
      try {
        await staysApart(start(folder).then((engine) => withImage(engine, folder)));
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  );
}

e2eTest(
  "a step is kept from Incus's bridges, whatever they are called",
  { ...INCUS_NEEDS, commands: [...HOST.commands, ...INCUS_NEEDS.commands] },
  async () => {
    await using peer = await startIncus();
    for (const name of ["incusbr7", BRIDGE]) await peer.incus("network", "create", name);
    using _network = peer.enter();
    await printed(() => "true", async () => {
      const { stdout } = await runTool("iptables-save", ["-t", "mangle"]);
      for (const to of ["incusbr\\+", BRIDGE]) {
        assert.match(stdout, new RegExp(`^-A FORWARD -i svc-\\S+-255 -o ${to} .* -j DROP$`, "m"));
      }
    });
  },
);
