/** The docker daemons that tests take as peers are what they are said to be. */
import assert from "node:assert/strict";
import { requireTools, runTool } from "../e2e/harness.ts";
import { busyboxArchive } from "../peers/base_image.ts";
import { type DockerdOptions, startDockerd } from "../peers/dockerd.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";

const COMMANDS = [
  "dockerd",
  "docker",
  "busybox",
  "unshare",
  "nsenter",
  "ip",
  "iptables",
  "openssl",
];

const DAEMONS: DockerdOptions[] = [
  { version: "20.10", network: "own", tcp: "plain" },
  { version: "28", network: "own" },
  { version: "28", network: "own", store: "containerd", tcp: "tls" },
];

for (const options of DAEMONS) {
  const needs = { root: true, commands: COMMANDS };
  const files = options.version === "28" ? [UNSTABLE_READY] : [];
  Deno.test({
    name: `dockerd ${options.version}, ${options.store ?? "graph"} store: a network of its own`,
    ignore: requireTools({ ...needs, files }).ignore,
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async () => {
      const folder = await Deno.makeTempDir({ prefix: "svc-dockerd-" });
      try {
        await using daemon = await startDockerd(folder, options);
        const info = JSON.parse((await daemon.docker("info", "-f", "{{json .}}")).stdout);
        assert.ok(info.ServerVersion.startsWith(options.version), info.ServerVersion);
        assert.equal(
          JSON.stringify(info.DriverStatus).includes("containerd.snapshotter"),
          options.store === "containerd",
        );
        await busyboxArchive(`${folder}/root.tar`);
        await daemon.docker("import", `${folder}/root.tar`, "base:1");
        const serve = ["base:1", "/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/srv"];
        await daemon.docker(
          "run",
          "-d",
          "--stop-signal",
          "KILL",
          "--name",
          "web",
          "-p",
          "8080:80",
          ...serve,
        );
        const address = await daemon.docker(
          ...["inspect", "-f", "{{.NetworkSettings.Networks.bridge.IPAddress}}", "web"],
        );
        using _inside = daemon.enter();
        for (const host of ["127.0.0.1:8080", address.stdout.trim()]) {
          assert.equal(await answer(`http://${host}/`), "hello from busybox\n");
        }
        if (options.tcp) {
          const env = { DOCKER_HOST: daemon.tcp, DOCKER_CERT_PATH: daemon.certificates };
          const tls = options.tcp === "tls" ? { DOCKER_TLS_VERIFY: "1" } : undefined;
          assert.match(
            (await runTool("docker", ["ps"], { env: { ...env, ...tls } })).stdout,
            /web/,
          );
        }
        await daemon.kill9();
        await daemon.start();
        assert.match((await daemon.docker("ps", "-a")).stdout, /web/);
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}

/** The server in the container may not listen yet. */
async function answer(url: string): Promise<string> {
  for (const until = Date.now() + 60_000;;) {
    try {
      return await (await fetch(url)).text();
    } catch (error) {
      if (Date.now() > until) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
