/** The podmans that tests take as peers are what they are said to be. */
import assert from "node:assert/strict";
import { requireTools } from "../e2e/harness.ts";
import { busyboxArchive } from "../peers/base_image.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { PODMAN_COMMANDS, PODMAN_FILES, type PodmanOptions, startPodman } from "../peers/podman.ts";

const PEERS: PodmanOptions[] = [
  { version: "4.3", tcp: true },
  { version: "4.3", rootless: true },
  { version: "5" },
  { version: "5", rootless: true, tcp: true },
];

for (const options of PEERS) {
  const files = options.version === "5" ? [UNSTABLE_READY] : PODMAN_FILES;
  Deno.test({
    name: `podman ${options.version}, ${options.rootless ? "rootless" : "root"}`,
    ignore: requireTools({ root: true, commands: PODMAN_COMMANDS, files }).ignore,
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async () => {
      await using peer = await startPodman(options);
      const info = JSON.parse((await peer.podman("info", "-f", "json")).stdout);
      assert.ok(info.version.Version.startsWith(options.version), info.version.Version);
      assert.equal(info.host.security.rootless, options.rootless ?? false);
      const archive = await Deno.makeTempFile();
      await busyboxArchive(archive);
      await Deno.chmod(archive, 0o644);
      await peer.podman("import", archive, "base:1");
      await Deno.remove(archive);
      await peer.podman("network", "create", "first");
      const serve = ["base:1", "/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/srv"];
      const web = ["--name", "web", "--network", "first", "-p", "8080:80"];
      await peer.podman("run", "-d", "--stop-signal", "KILL", ...web, ...serve);
      const lookup = ["base:1", "/bin/busybox", "nslookup", "-type=a", "web.dns.podman"];
      const asked = await peer.podman("run", "--rm", "--network", "first", ...lookup);
      assert.match(asked.stdout, /10\.\d+\.\d+\.\d+/);
      using _inside = peer.enter();
      assert.equal(await answer("http://127.0.0.1:8080/"), "hello from busybox\n");
      if (options.tcp) {
        assert.equal(await answer(`${peer.tcp.replace("tcp", "http")}/_ping`), "OK");
      }
      await peer.kill9();
      await peer.start();
      assert.equal(await answer("http://127.0.0.1:8080/"), "hello from busybox\n");
    },
  });
}

/** The server may not listen yet. */
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
