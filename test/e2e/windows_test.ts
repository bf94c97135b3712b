/** The Windows client, as Deno's Windows build runs it under wine, against a server on Linux. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { bundle } from "../../scripts/build/bundle.ts";
import { RUNTIME_ARGS } from "../../scripts/build/launcher.ts";
import { WORKERS } from "../../lib/base/worker.ts";
import { windowsDeno, wineRoot } from "../peers/wine.ts";
import { eventually, PATIENCE_MS } from "../waits.ts";
import { freePort, requireTools, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables", "busybox", "unshare"] };

const DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
COPY . /srv/
RUN ["/bin/busybox", "--install", "-s", "/bin"]
CMD ["sh", "-c", "echo ready; exec httpd -f -p 8080 -h /srv"]
`;

/** What is printed of these programs' own accord. */
const NOISE = /^(wine: .*|error: XDG_RUNTIME_DIR .*|.*winediag.*)\r?\n/gm;

const root = wineRoot();
if (!root) {
  console.error("windows_test: no wine; test/peers/wine_root.sh makes it, in some minutes");
}

Deno.test({
  name: "the Windows client: config, build, deploy, logs, exec, port-forward",
  // Unlike other programs it is not asked for with CI=true: to make it takes minutes.
  ignore: !root || requireTools(NEEDS).ignore,
  fn: async (t) => {
    const share = await Deno.makeTempDir({ prefix: "svc-windows-" });
    try {
      const info = {
        version: "1.2.3",
        commit: "",
        dirty: false,
        form: "compile" as const,
        tags: [],
      };
      await bundle({ main: "main.ts", workers: WORKERS, info, outDir: join(share, "app") });
      await Deno.mkdir(join(share, "context/page"), { recursive: true });
      await Deno.writeTextFile(join(share, "context/Dockerfile"), DOCKERFILE);
      await Deno.writeTextFile(join(share, "context/page/index.html"), "from Windows\n");
      await Deno.writeTextFile(join(share, "context/secret.txt"), "left out\n");
      await Deno.writeTextFile(join(share, "context/.dockerignore"), "secret.txt\r\n");
      await Deno.copyFile("/bin/busybox", join(share, "context/busybox"));
      await using server = await startServer();
      const windows = windowsDeno(root!, share);
      const env = { SVC_CONFIG: "Z:\\host\\config.yaml" };
      const command = (args: string[]) =>
        windows.command([...RUNTIME_ARGS, "app/svc.js", ...args], env);
      const run = async (...args: string[]) => {
        const { code, stdout, stderr } = await command(args).output();
        const [out, err] = [stdout, stderr].map((bytes) =>
          new TextDecoder().decode(bytes).replace(NOISE, "")
        );
        return { code, out, err };
      };
      const ok = async (...args: string[]) => {
        const { code, out, err } = await run(...args);
        assert.equal(code, 0, `svc ${args.join(" ")}: ${out}${err}`);
        return out;
      };
      await t.step("version and help", async () => {
        assert.match(await ok("version"), /^svc 1\.2\.3\r?\n/);
        assert.match(await ok("build", "--help"), /^Usage: svc build/);
        assert.equal((await run("bild")).code, 2);
      });
      await t.step("config", async () => {
        await ok("config", "set-context", "lab", "--server", server.url, "--current");
        assert.match(await Deno.readTextFile(join(share, "config.yaml")), /lab/);
        assert.match(await ok("config", "get-contexts"), /\* +lab +http/);
        assert.match(await ok("info"), /bare/);
      });
      await t.step("build", async () => {
        await ok("build", "-q", "-t", "web:1", "context");
      });
      await t.step("deploy", async () => {
        const spec = "name: web\r\nimage: web:1\r\nexpose: [8080]\r\nstopSignal: SIGKILL\r\n";
        await Deno.writeTextFile(join(share, "app.yaml"), spec);
        assert.match(await ok("deploy", "-f", "app.yaml"), /^web is deployed/);
        assert.match(await ok("ps"), /web .*running .*8080\/tcp/);
      });
      await t.step("logs", async () => {
        await eventually("its first words", async () => /ready/.test(await ok("logs", "web")));
      });
      await t.step("exec", async () => {
        assert.equal(await ok("exec", "web", "cat", "/srv/page/index.html"), "from Windows\n");
        assert.equal((await run("exec", "web", "cat", "/srv/secret.txt")).code, 1);
        assert.equal((await run("exec", "web", "sh", "-c", "exit 7")).code, 7);
      });
      await t.step("port-forward", async () => {
        const port = freePort();
        const child = command(["port-forward", "web", `${port}:8080`]).spawn();
        const [out, err] = [child.stdout, child.stderr].map((stream) =>
          new Response(stream).text()
        );
        let ended = false;
        child.status.then(() => ended = true);
        const page = async () =>
          await (await fetch(`http://127.0.0.1:${port}/page/index.html`)).text();
        const until = Date.now() + PATIENCE_MS;
        try {
          for (;;) {
            const text = await page().catch((error) => {
              if (!ended && Date.now() < until) return undefined;
              throw error;
            });
            if (text !== undefined) {
              assert.equal(text, "from Windows\n");
              break;
            }
            await new Promise((resolve) => setTimeout(resolve, 200));
          }
        } catch (error) {
          if (!ended) throw error;
          assert.fail(`it ended: ${await out}${await err}`);
        } finally {
          if (!ended) child.kill("SIGKILL");
          await Promise.all([child.status, out, err]);
        }
      });
    } finally {
      await Deno.remove(share, { recursive: true });
    }
  },
});
