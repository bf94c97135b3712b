/** A deployment moves: every backend takes the spec that another one gives, as it is, and gives the same. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { DEPLOY_BACKENDS } from "../../backends/deploy/mod.ts";
import { parseDeploySpec } from "../../lib/api/deploy_spec_parse.ts";
import { fieldWarnings } from "../../lib/deploy/fields.ts";
import { busyboxArchive } from "../peers/base_image.ts";
import { startContainerd } from "../peers/containerd.ts";
import { startDockerd } from "../peers/dockerd.ts";
import { INCUS_NEEDS, startIncus } from "../peers/incus.ts";
import { PODMAN_COMMANDS, PODMAN_FILES, startPodman } from "../peers/podman.ts";
import { eventually } from "../waits.ts";
import {
  baseImage,
  e2eTest,
  freePort,
  freeSubnetBase,
  type Needs,
  type Server,
  startServer,
} from "./harness.ts";

interface Engine {
  needs: Needs;
  /** The server's registry takes the image base:1; else `open` gives it to the engine. */
  takesPushes?: true;
  /** Starts the engine; gives the variables of a server on it, which listens on the port. */
  open(folder: string, stack: AsyncDisposableStack, port: number): Promise<Record<string, string>>;
}

const WEB = (port: number, subnet: string) => `
name: web
image: base:1
# The text of the page is the environment's, with its lines.
entrypoint: [sh, -c]
command: ['mkdir /tmp/w; printf %s "$PAGE" >/tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w']
env:
  PAGE: |
    first: line
      second # line
  "<<": merged
  EMPTY: ""
  NUMBER: "0440"
ports: ["127.0.0.1:${port}:8080"]
expose: [9090/udp]
volumes: [{name: data, target: /data, size: 1Gi, labels: {team: shop}}]
networks:
  - {name: front, subnet: ${subnet}.0/24, ip: ${subnet}.7, mac: "02:42:0a:09:00:07", aliases: [db]}
  - {name: back, internal: true, labels: {tier: data}}
restart: on-failure:3
healthcheck: {test: "wget -q -O - http://127.0.0.1:8080/", interval: 1s, timeout: 60s, retries: 60}
resources: {memoryLimit: 64Mi, cpuLimit: 500m}
updateConfig: {parallelism: 1, order: stop-first}
user: 1000:1000
workingDir: /tmp
hostname: front-door
labels: {team: shop, "com.example/tier": "one two"}
origin: {project: shop, host: desk, git: {branch: main, commit: 1a2b3c4d, dirty: true}}
stopSignal: SIGKILL
stopGracePeriod: 3s
init: true
readOnly: true
tmpfs: ["/tmp:size=4m,mode=1777"]
capDrop: [ALL]
securityOpt: [no-new-privileges]
groupAdd: ["3000"]
sysctls: {net.core.somaxconn: "1024"}
extraHosts: {db.internal: 10.0.0.5}
dnsSearch: [example.com]
# Where one is left out, podman takes the most there is, which not every host permits.
ulimits: [nofile=1024:2048, nproc=1024:2048]
shmSize: 32Mi
shells: [/bin/sh]
knative: {enabled: true, minScale: 1}
telemetry: {attributes: {team: shop}}
egress: {mode: env, proxies: {HTTPS_PROXY: "http://proxy.example:3128"}}
`;

const MANY = `
name: many
image: base:1
replicas: 2
command: [sh, -c, 'echo "$HOSTNAME"; exec sleep 1000']
stopSignal: SIGKILL
networks: [front]
`;

const ENGINES: Record<string, Engine> = {
  bare: {
    needs: { commands: ["runc", "conmon", "iptables", "skopeo"] },
    takesPushes: true,
    open: () => Promise.resolve({}),
  },
  containerd: {
    needs: { commands: ["containerd", "runc", "perl", "flock", "iptables", "skopeo"] },
    takesPushes: true,
    async open(folder, stack) {
      const daemon = stack.use(await startContainerd(folder));
      return { SVC_CONTAINERD_ADDRESS: daemon.address };
    },
  },
  dockerhost: {
    needs: { commands: ["dockerd", "docker", "unshare", "nsenter", "ip", "iptables"] },
    async open(folder, stack) {
      const daemon = stack.use(await startDockerd(join(folder, "docker"), { network: "own" }));
      await busyboxArchive(join(folder, "root.tar"));
      await daemon.docker("import", join(folder, "root.tar"), "base:1");
      stack.use(daemon.enter());
      return { DOCKER_HOST: daemon.host };
    },
  },
  podman: {
    needs: { commands: PODMAN_COMMANDS, files: PODMAN_FILES },
    async open(folder, stack) {
      const peer = stack.use(await startPodman());
      await busyboxArchive(join(folder, "root.tar"));
      await peer.podman("import", join(folder, "root.tar"), "docker.io/library/base:1");
      stack.use(peer.enter());
      return { SVC_PODMAN_SOCKET: peer.socket };
    },
  },
  incus: {
    needs: INCUS_NEEDS,
    takesPushes: true,
    async open(_folder, stack, port) {
      const peer = stack.use(await startIncus());
      await peer.trust(`localhost:${port}`);
      stack.use(peer.enter());
      return { SVC_INCUS_SOCKET: peer.socket };
    },
  },
};

const NEEDS: Needs = {
  root: true,
  commands: ["busybox", ...Object.values(ENGINES).flatMap(({ needs }) => needs.commands ?? [])],
  files: Object.values(ENGINES).flatMap(({ needs }) => needs.files ?? []),
};

async function ok(server: Server, args: string[], stdin?: string): Promise<string> {
  const { code, stdout, stderr } = await server.svc(args, { stdin });
  assert.equal(code, 0, `svc ${args.join(" ")}: ${stderr}\n${server.log()}`);
  return stdout;
}

/** Deploys the text; gives the spec that the server has then, as `svc status` writes it. */
async function moved(server: Server, backend: string, text: string): Promise<string> {
  const { name, ...spec } = parseDeploySpec(text);
  const deployed = await server.svc(["deploy", "-f", "-"], { stdin: text });
  assert.equal(deployed.code, 0, `${backend}: ${deployed.stderr}\n${server.log()}`);
  const rules = await DEPLOY_BACKENDS[backend].fields!();
  // The engine may tell more, by what it finds.
  for (const told of fieldWarnings({ name, ...spec }, rules)) {
    assert.ok(deployed.stderr.includes(`svc: warning: ${told}\n`), `${backend}: ${told}`);
  }
  const taken = await ok(server, ["status", name, "-o", "yaml"]);
  assert.match(await ok(server, ["deploy", "-f", "-"], taken), /is unchanged/);
  return taken;
}

const page = (port: number) =>
  eventually("an answer", async () => {
    const headers = { connection: "close" };
    return await (await fetch(`http://127.0.0.1:${port}/`, { headers })).text();
  });

e2eTest(
  "moving: a spec goes from backend to backend, and no field of it is lost",
  NEEDS,
  async (t) => {
    const port = freePort();
    const base = freeSubnetBase();
    const texts = [WEB(port, `${base}.77`), MANY];
    let first: string[] | undefined;
    for (const [backend, { open, takesPushes }] of Object.entries(ENGINES)) {
      await t.step(backend, async () => {
        const folder = await Deno.makeTempDir({ prefix: "svc-e2e-moving-" });
        try {
          await using stack = new AsyncDisposableStack();
          const listening = freePort();
          const env = await open(folder, stack, listening);
          const server = stack.use(
            await startServer({
              port: listening,
              env: { SVC_DEPLOY_BACKEND: backend, SVC_CNI_SUBNET_BASE: base, ...env },
            }),
          );
          if (takesPushes) await baseImage(server, "base:1");
          const given = first ?? texts;
          const taken = [];
          for (const text of given) taken.push(await moved(server, backend, text));
          // The first one has what was left out, and no short forms.
          first ??= taken;
          const read = (text: string) => parseDeploySpec(text);
          assert.deepEqual(taken.map(read), first.map(read));
          assert.equal(await page(port), "first: line\n  second # line\n");
          const { labels, origin } = await eventually("it is healthy", async () => {
            const told = JSON.parse(await ok(server, ["status", "web", "--output", "json"]));
            return told.instances.length === 1 && told.instances[0].state === "healthy" && told;
          });
          assert.deepEqual(labels, parseDeploySpec(texts[0]).labels);
          assert.deepEqual([origin.project, origin.git.dirty], ["shop", true]);
          const run = (...command: string[]) => ok(server, ["exec", "web", "--", ...command]);
          assert.equal(await run("sh", "-c", 'echo "$NUMBER,$EMPTY,$(id -u)"'), "0440,,1000\n");
          assert.ok((await run("ip", "-4", "-o", "addr")).includes(` ${base}.77.7/24 `));
          assert.match(await run("env"), /^<<=merged$/m);
          await eventually(
            "a line of each",
            async () => (await ok(server, ["logs", "many"])).trim().split("\n").length === 2,
          );
          await ok(server, ["rm", "web", "many"]);
        } finally {
          await Deno.remove(folder, { recursive: true });
        }
      });
    }
  },
);
