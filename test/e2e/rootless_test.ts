/** `svc serve --rootless` run by an ordinary user: the same images as root's, and what stands in the way. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { removeFolder } from "../peers/cleanup.ts";
import { answering, get, outside } from "../peers/outside.ts";
import { eventually } from "../waits.ts";
import { withContext } from "./build_helpers.ts";
import {
  baseImage,
  e2eTest,
  EXECUTABLE,
  runTool,
  type Server,
  startServer,
  svc,
} from "./harness.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "skopeo", "setpriv", "unshare", "nsenter", "newuidmap", "newgidmap"],
  files: ["/bin/busybox", "/etc/subuid", "/etc/subgid", "/etc/passwd"],
};

/** What the launcher needs, and the server but for what maps ids. */
const TOOLS = "sh id ls mktemp tail head gzip tar mkdir mv rm chmod touch unshare nsenter cat runc"
  .split(" ");
const MAPPING = ["newuidmap", "newgidmap", "umount", "true"];

/** Of nobody: it is in no file of this machine but those that the test puts over them. */
const UID = 58123;
const FIRST = 1_310_720_000;

interface User {
  /** Runs the executable as the user. */
  executable: string;
  folder: string;
  /** A data directory that the user may write. */
  dataDir: string;
}

interface UserOptions {
  /** Lines of /etc/subuid and /etc/subgid. */
  ranges?: string;
  /** PATH holds these programs only. */
  path?: string[];
}

/**
 * An unprivileged user, whose name and ids are known in a mount namespace of its server alone: nothing of
 * the machine's /etc is changed, and nothing is left of it.
 */
async function withUser(options: UserOptions, work: (user: User) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-rootless-" });
  try {
    await Deno.chmod(folder, 0o755);
    const own = ["home", "run", "data"].map((name) => join(folder, name));
    for (const path of own) {
      await Deno.mkdir(path, { mode: 0o700 });
      await Deno.chown(path, UID, UID);
    }
    const ranges = options.ranges ?? `svc-rootless:${FIRST}:65536\n`;
    const passwd = await Deno.readTextFile("/etc/passwd");
    const files = {
      subuid: ranges,
      subgid: ranges,
      passwd: `${passwd.trimEnd()}\nsvc-rootless:x:${UID}:${UID}::${own[0]}:/bin/sh\n`,
    };
    for (const [name, text] of Object.entries(files)) {
      await Deno.writeTextFile(join(folder, name), text);
    }
    const mounts = Object.keys(files).map((name) => `mount --bind ${folder}/${name} /etc/${name}`);
    // As devices are on most machines: for everybody.
    await runTool("mknod", ["-m", "666", join(folder, "tun"), "c", "10", "200"]);
    mounts.push(`mount --bind ${folder}/tun /dev/net/tun`);
    let path = "$PATH";
    if (options.path) {
      path = join(folder, "bin");
      await Deno.mkdir(path);
      for (const name of options.path) {
        const found = await runTool("which", [name]);
        await Deno.symlink(found.stdout.trim(), join(path, name));
      }
    }
    await Deno.writeTextFile(
      join(folder, "inside"),
      `#!/bin/sh\nset -e\n${mounts.join("\n")}\n` +
        `setpriv=$(command -v setpriv) PATH=${path} HOME=${own[0]} XDG_RUNTIME_DIR=${own[1]}\n` +
        `unset XDG_CACHE_HOME\nexport PATH HOME XDG_RUNTIME_DIR\n` +
        `exec "$setpriv" --reuid ${UID} --regid ${UID} --clear-groups ${EXECUTABLE} "$@"\n`,
    );
    const executable = join(folder, "svc-as-user");
    // Every step takes the place of the one before: the process that the test kills is the server.
    await Deno.writeTextFile(
      executable,
      `#!/bin/sh\nexec unshare --mount sh ${folder}/inside "$@"\n`,
    );
    await Deno.chmod(executable, 0o755);
    await work({ executable, folder, dataDir: own[2] });
  } finally {
    await removeFolder(folder);
  }
}

const serve = (user: User, env: Record<string, string> = {}) =>
  startServer({
    executable: user.executable,
    dataDir: user.dataDir,
    args: ["--rootless"],
    // Nothing in it can be deployed to: this is about builds.
    env: { SVC_DEPLOY_BACKEND: "dockerhost", SVC_REGISTRY_SOURCE: "off", ...env },
  });

/** Every way in which a file gets an owner, and every mark that a layer can hold of what went away. */
const DOCKERFILE = `ARG BASE
FROM $BASE AS make
RUN mkdir -p /out/old/deep /out/other && echo one > /out/old/deep/file && echo two > /out/gone
RUN rm /out/gone && rm -r /out/old && mkdir /out/old && echo new > /out/old/new
RUN chown -R 1000:2000 /out/other && chmod 4755 /bin/busybox && ln -s old /out/link

FROM $BASE
COPY --from=make /out /srv
COPY --chown=1234:65534 file /owned
COPY file /plain
RUN --mount=type=cache,target=/c --mount=type=bind,source=file,target=/ro \\
  cat /ro > /c/kept && id -u > /who && rm -r /srv/old && mkdir /srv/old
USER 1234:65534
WORKDIR /home/app
RUN id -u > /home/app/me; id -g >> /home/app/me
USER 0
RUN --network=none cat /proc/self/uid_map > /dev/null && chown 1:1 /plain
`;

const FILES = { Dockerfile: DOCKERFILE, file: "from the context\n" };

async function layersOf(
  server: Server,
  name: string,
): Promise<{ Digest: string; Layers: string[] }> {
  const url = `docker://${server.host}/${name}`;
  return JSON.parse((await runTool("skopeo", ["inspect", "--tls-verify=false", url])).stdout);
}

async function build(server: Server, directory: string, ...args: string[]) {
  const base = `${server.host}/base:1`;
  const result = await server.svc(
    ["build", "--build-arg", `BASE=${base}`, "-t", "app:v1", ...args, directory],
  );
  return { ...result, shown: result.stderr + result.stdout };
}

/** "mode owner/group path" of everything in the image's last layers. */
async function owners(server: Server, digest: string): Promise<string> {
  const answer = await fetch(`${server.url}/v2/app/blobs/${digest}`);
  const file = await Deno.makeTempFile();
  try {
    await Deno.writeFile(file, new Uint8Array(await answer.arrayBuffer()));
    return (await runTool("tar", ["--numeric-owner", "-tvf", file])).stdout;
  } finally {
    await Deno.remove(file);
  }
}

e2eTest("rootless: an ordinary user's build is root's, byte for byte", NEEDS, async () => {
  await withContext(FILES, async (directory) => {
    let expected: Awaited<ReturnType<typeof layersOf>>;
    {
      await using root = await startServer({
        env: { SVC_DEPLOY_BACKEND: "dockerhost", SVC_REGISTRY_SOURCE: "off" },
      });
      await baseImage(root, "base:1");
      const built = await build(root, directory, "--reproducible");
      assert.equal(built.code, 0, built.shown);
      expected = await layersOf(root, "app:v1");
    }
    await withUser({}, async (user) => {
      await using server = await serve(user, { SVC_BUILD_PIDS_LIMIT: "500" });
      const status = await Deno.readTextFile(`/proc/${server.pid}/status`);
      assert.match(status, new RegExp(`^Uid:\\s${UID}\\s`, "m"), "the process is the user's");
      await baseImage(server, "base:1");
      const first = await build(server, directory, "--reproducible");
      assert.equal(first.code, 0, `${first.shown}\n${server.log()}`);
      const got = await layersOf(server, "app:v1");
      assert.deepEqual(got.Layers, expected.Layers);
      const all = (await Promise.all(got.Layers.map((digest) => owners(server, digest)))).join("");
      assert.match(all, /1000\/2000 .* srv\/other\//);
      assert.match(all, /1234\/65534 .* owned\n/);
      assert.match(all, /1\/1 .* plain\n/);
      assert.match(all, /0\/0 .* who\n/);
      assert.match(all, /srv\/old\/\.wh\.\.wh\.\.opq\n|srv\/old\/\.wh\.new\n/);
      const again = await build(server, directory, "--reproducible");
      assert.equal(again.code, 0, again.shown);
      assert.match(again.shown, /CACHED/);
      assert.equal((await layersOf(server, "app:v1")).Digest, got.Digest);
      // On disk nothing is root's, and what the image gives to others is in the user's range.
      const { stdout } = await runTool("find", [user.dataDir, "-uid", "-1000", "-print"]);
      assert.equal(stdout, "", "files of the host's own users");
      await withContext(
        { Dockerfile: "ARG BASE\nFROM $BASE\nRUN echo words; exit 42\n" },
        async (d) => {
          const failed = await build(server, d);
          assert.equal(failed.code, 1);
          for (const part of [/Dockerfile:3/, /words\n/, /42/]) assert.match(failed.shown, part);
        },
      );
      // The limit is that of the user namespace here, the server's own threads in it.
      const bomb = "n=0; while [ $n -lt 1000 ]; do sleep 1000 & n=$((n+1)); done; echo all started";
      await withContext(
        { Dockerfile: `ARG BASE\nFROM $BASE\nRUN ${bomb}\n` },
        async (directory) => {
          const refused = await build(server, directory);
          assert.equal(refused.code, 1);
          assert.match(refused.shown, /can't fork|Resource temporarily unavailable/);
        },
      );
      for (const line of ["COPY --chown=300000:5 Dockerfile /x", "USER 300000\nRUN id"]) {
        await withContext({ Dockerfile: `ARG BASE\nFROM $BASE\n${line}\n` }, async (directory) => {
          const refused = await build(server, directory);
          assert.equal(refused.code, 1);
          assert.match(refused.shown, /300000:\d+: this user namespace has no such ids\n.*subuid/);
        });
      }
      await server.restart();
      const later = await build(server, directory, "--reproducible");
      assert.match(later.shown, /CACHED/);
      assert.equal((await layersOf(server, "app:v1")).Digest, got.Digest);
      const { code, signal } = await server.stop();
      assert.deepEqual({ code, signal }, { code: 0, signal: null });
    });
  });
});

for (const program of ["pasta", "slirp4netns"]) {
  const needs = { ...NEEDS, commands: [...NEEDS.commands, program, "ip"] };
  e2eTest(
    `rootless: ${program} gives a step the way out, and none to the host`,
    needs,
    async () => {
      const path = [...TOOLS, ...MAPPING, program, "ip"];
      await withUser({ path }, async (user) => {
        await using server = await serve(user);
        await baseImage(server, "base:1");
        await using other = await outside();
        await using loopback = answering("127.0.0.1");
        await using everywhere = answering("0.0.0.0");
        await using near = answering("::");
        const run = async (script: string) => {
          let built: Awaited<ReturnType<typeof build>>;
          await withContext(
            { Dockerfile: `ARG BASE\nFROM $BASE\nRUN ${script}\n` },
            async (directory) => {
              built = await build(server, directory, "--no-cache");
            },
          );
          return built!;
        };
        const reached = await run(get(other.address, other.port));
        assert.match(reached.shown, /from outside/);
        const own = Deno.networkInterfaces().filter(({ family }) => family === "IPv4")
          .map(({ address }) => address);
        const gateways = program === "pasta"
          ? "$(ip route | sed -n 's/default via \\([^ ]*\\).*/\\1/p')"
          : "10.0.2.2 10.0.2.3";
        // What is not answered takes seconds: all addresses are asked at once.
        const all = [loopback, everywhere, server].map(({ port }) =>
          `for a in ${own.join(" ")} ${gateways}; do { ${
            get("$a", port)
          } && echo REACHED $a ${port}; } & done; wait`
        );
        const local = Deno.networkInterfaces().map(({ address }) => address)
          .filter((address) => address.startsWith("fe80:"));
        const link = local.map((address) =>
          `{ printf 'GET /link HTTP/1.0\\r\\n\\r\\n' | nc -w 2 ${address}%$(ls /sys/class/net | grep -v lo) ${near.port}; } & `
        );
        const tried = await run(`${all.join("; ")}; ${link.join("")} wait; echo tried`);
        assert.match(tried.shown, /\btried\n/);
        assert.doesNotMatch(tried.shown.replace(/.*RUN .*/g, ""), /REACHED \d/);
        assert.deepEqual([...loopback.paths, ...everywhere.paths, ...near.paths], []);
        await server.kill9();
        await server.restart();
        assert.match((await run(get(other.address, other.port))).shown, /from outside/);
        await server.stop();
        await eventually(`the end of ${program}`, () => processesWith(user.folder).length === 0);
      });
    },
  );
}

e2eTest("rootless: without pasta and slirp4netns RUN says what to install", NEEDS, async () => {
  const path = [...TOOLS, ...MAPPING];
  await withUser({ path }, async (user) => {
    await using server = await serve(user);
    await baseImage(server, "base:1");
    await withContext({ Dockerfile: "ARG BASE\nFROM $BASE\nRUN true\n" }, async (directory) => {
      const refused = await build(server, directory);
      assert.equal(refused.code, 1);
      assert.match(refused.shown, /apt-get install passt/);
      assert.match(refused.shown, /SVC_BUILD_NETWORK/);
    });
  });
});

/** Processes of this host whose command line holds `text`. */
function processesWith(text: string): string[] {
  return [...Deno.readDirSync("/proc")].map(({ name }) => name).filter((name) => {
    if (!/^\d+$/.test(name) || Number(name) === Deno.pid) return false;
    try {
      return Deno.readTextFileSync(`/proc/${name}/cmdline`).includes(text);
    } catch {
      return false; // ended meanwhile
    }
  });
}

e2eTest("rootless: kill -9 ends no step, the next start does", NEEDS, async () => {
  await withUser({}, async (user) => {
    await using server = await serve(user);
    await baseImage(server, "base:1");
    const marker = `sleep\x003000${Deno.pid}`;
    const lines = ["ARG BASE", "FROM $BASE", "RUN echo kept > /kept", "USER 1234"];
    const files = { Dockerfile: [...lines, `RUN sleep 3000${Deno.pid}`].join("\n") };
    await withContext(files, async (directory) => {
      const cut = build(server, directory);
      await eventually("the step", () => processesWith(marker).length > 0);
      await server.kill9();
      assert.notEqual((await cut).code, 0);
      await server.restart();
      await server.logged(/ended steps that an earlier server left running/);
      await eventually("the end of the step", () => processesWith(marker).length === 0);
      await Deno.writeTextFile(join(directory, "Dockerfile"), [...lines, "RUN true"].join("\n"));
      const again = await build(server, directory);
      assert.equal(again.code, 0, again.shown);
      assert.match(again.shown, /CACHED/);
    });
  });
});

e2eTest("rootless: a client that goes away ends its build", NEEDS, async () => {
  await withUser({}, async (user) => {
    await using server = await serve(user);
    await baseImage(server, "base:1");
    const marker = `sleep\x004000${Deno.pid}`;
    const step = `sleep 4000${Deno.pid} & sleep 4000${Deno.pid}`;
    const files = { Dockerfile: `ARG BASE\nFROM $BASE\nUSER 1234\nRUN ${step}\n` };
    await withContext(files, async (directory) => {
      const abort = new AbortController();
      const args = ["build", "--build-arg", `BASE=${server.host}/base:1`, directory];
      const running = server.svc(args, { signal: abort.signal });
      await eventually("the step", () => processesWith(marker).length >= 2);
      abort.abort();
      await running;
      await eventually("the end of the step", () => processesWith(marker).length === 0);
    });
  });
});

e2eTest("rootless: what stands in the way is said, the registry works", NEEDS, async () => {
  const cases: [UserOptions, RegExp][] = [
    [{ ranges: "somebody:100000:65536\n" }, /\/etc\/subuid gives svc-rootless no range of ids/],
    [{ path: TOOLS }, /newuidmap is not on PATH; install the package uidmap/],
  ];
  for (const [options, reason] of cases) {
    await withUser(options, async (user) => {
      await using server = await serve(user);
      await server.logged(reason);
      await baseImage(server, "base:1");
      await withContext({ Dockerfile: "ARG BASE\nFROM $BASE\nRUN true\n" }, async (directory) => {
        const refused = await build(server, directory);
        assert.equal(refused.code, 1);
        assert.match(refused.shown, /failed to mount [^\n]*: operation not permitted/);
        assert.match(refused.shown, reason);
      });
    });
  }
});

e2eTest("rootless: containers are not for it, and root needs it not", NEEDS, async () => {
  await withUser({}, async (user) => {
    const refusals: [string, string, RegExp][] = [
      ["SVC_DEPLOY_BACKEND", "bare", /--rootless and SVC_DEPLOY_BACKEND=bare: its containers/],
      ["SVC_BUILD_WORKER", "containerd", /--rootless and SVC_BUILD_WORKER=containerd: it runs/],
    ];
    for (const [name, value, expected] of refusals) {
      const output = await new Deno.Command(user.executable, {
        args: ["serve", "--rootless", "--data-dir", user.dataDir],
        env: { [name]: value, SVC_ADDR: "127.0.0.1:0" },
        stdin: "null",
      }).output();
      const words = new TextDecoder().decode(output.stderr);
      assert.equal(output.code, 1, words);
      assert.match(words, expected);
    }
    const version = await new Deno.Command(user.executable, { args: ["version"] }).output();
    assert.equal(version.code, 0);
  });
  await using server = await startServer({ args: ["--rootless"] });
  await server.logged(/--rootless changes nothing for root/);
  assert.equal((await svc(["version"])).code, 0);
});
