/**
 * The caller's files in a mount, beside sshfs where it is installed, and a local folder. `SVC_BENCH_DELAY`: milliseconds
 * of a round trip (default 0 and 20), `SVC_BENCH_MIB`: size of the large file (default 128), `SVC_BENCH_FILES`: number
 * of small ones (default 300), `SVC_BENCH_ROUNDS` (default 3).
 */
import { join } from "node:path";
import { lateWay } from "../fixtures/late_way.ts";
import { EXECUTABLE, type Server, startServer } from "../e2e/harness.ts";
import { Client } from "../e2e/session_client.ts";
import { startSshd } from "../peers/sshd.ts";
import { busyboxFolder } from "./example.ts";
import { type Candidate, interleave, report, silently } from "./measure.ts";

const number = (name: string, usual: number) => Number(Deno.env.get(name) ?? usual);
const MIB = number("SVC_BENCH_MIB", 128);
const FILES = number("SVC_BENCH_FILES", 300);
const ROUNDS = number("SVC_BENCH_ROUNDS", 3);
const DELAYS = (Deno.env.get("SVC_BENCH_DELAY") ?? "0,20").split(",").map(Number);

/** A folder that is seen at another place. */
interface Place extends AsyncDisposable {
  name: string;
  at: string;
}

async function svcPlace(server: Server, folder: string, delay: number): Promise<Place> {
  const way = await lateWay(server.port, delay / 2);
  const args = ["busybox:1", "--name", "bench", "--mount", `${folder}:/data`];
  const client = new Client(server, args, { SVC_SERVER: way.url });
  const at = join(server.dataDir, "mounts/bench/0/tree");
  await until(() => Deno.stat(join(at, "here")));
  return {
    ...{ name: "svc", at },
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await way[Symbol.asyncDispose]();
    },
  };
}

async function sshfsPlace(folder: string, base: string, delay: number): Promise<Place> {
  const sshd = await startSshd();
  const way = await lateWay(sshd.port, delay / 2);
  const at = join(base, "sshfs");
  await Deno.mkdir(at, { recursive: true });
  const options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"];
  const words = [
    ...options,
    `IdentityFile=${sshd.user}`,
    "sftp_server=/usr/lib/openssh/sftp-server",
  ].flatMap((option) => ["-o", option]);
  const from = `${Deno.env.get("USER") ?? "root"}@127.0.0.1:${folder}`;
  await silently("sshfs", ["-p", `${way.port}`, ...words, from, at]);
  return {
    ...{ name: "sshfs", at },
    async [Symbol.asyncDispose]() {
      await silently("umount", ["-l", at]);
      await way[Symbol.asyncDispose]();
      await sshd[Symbol.asyncDispose]();
    },
  };
}

async function until(probe: () => Promise<unknown>): Promise<void> {
  for (const last = Date.now() + 60_000;;) {
    try {
      return void await probe();
    } catch (error) {
      if (Date.now() > last) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** What is measured: a script with the place as `$AT`, and one before it that is not. */
const WORK: Record<string, { before?: string; script: string; only?: "fast" }> = {
  [`write ${MIB} MiB`]: {
    before: "rm -f $AT/large",
    script: `dd if=/dev/zero of=$AT/large bs=1M count=${MIB} conv=fsync`,
    only: "fast",
  },
  [`read ${MIB} MiB`]: {
    before: `head -c ${MIB}M /dev/urandom | dd of=$AT/large bs=1M iflag=fullblock`,
    script: "cat $AT/large > /dev/null",
    only: "fast",
  },
  [`write ${FILES} small files`]: {
    before: "rm -rf $AT/small; mkdir $AT/small",
    script: `for n in $(seq ${FILES}); do echo $n > $AT/small/$n; done`,
  },
  [`ls -l of ${FILES} files`]: { script: "ls -l $AT/small" },
  [`git clone of ${FILES} files`]: {
    before: "rm -rf $AT/clone",
    script: "git clone -q $REPO $AT/clone",
  },
  "git status": { script: "git -C $AT/clone status" },
  "20 saves: write, fsync, rename over": {
    script: "for n in $(seq 20); do dd if=/dev/zero of=$AT/new bs=4k count=1 conv=fsync; " +
      "mv -f $AT/new $AT/saved; done",
  },
};

async function repository(base: string): Promise<string> {
  const at = join(base, "repository");
  const script = `git init -q ${at}; cd ${at}; for n in $(seq ${FILES}); do ` +
    "mkdir -p d$((n / 30)); echo text $n > d$((n / 30))/f$n; done; git add -A; " +
    "git -c user.name=a -c user.email=a@example.org commit -q -m files";
  await silently("sh", ["-euc", script]);
  return at;
}

async function beside(server: Server, base: string, delay: number): Promise<void> {
  const repo = await repository(base);
  const folder = async (name: string) => {
    const at = join(base, name);
    await Deno.mkdir(at);
    await Deno.writeTextFile(join(at, "here"), "");
    return at;
  };
  await using svc = await svcPlace(server, await folder("of-svc"), delay);
  const peer = await has("sshfs") ? await sshfsPlace(await folder("of-sshfs"), base, delay) : null;
  await using _peer = peer;
  const local = { name: "a local folder", at: await folder("local") };
  for (const [what, { before, script, only }] of Object.entries(WORK)) {
    if (only === "fast" && delay > 0 && Deno.env.get("SVC_BENCH_DELAY") === undefined) continue;
    const candidates = [svc, ...peer ? [peer] : [], local].map(({ name, at }): Candidate => {
      const run = (script: string) => silently("sh", ["-euc", script], { AT: at, REPO: repo });
      return { name, run: () => run(script), ...before && { before: () => run(before) } };
    });
    report(`${what}, round trip of ${delay} ms`, await interleave(candidates, ROUNDS));
  }
}

async function has(program: string): Promise<boolean> {
  return (await new Deno.Command("which", { args: [program], stdout: "null" }).output()).success;
}

export async function mountsBeside(): Promise<void> {
  await using server = await startServer();
  const base = await Deno.makeTempDir({ prefix: "svc-bench-mounts-" });
  try {
    const env = { SVC_SERVER: server.url, SVC_CONFIG: "/nonexistent/config.yaml" };
    const context = await busyboxFolder(base);
    const file = join(context, "Dockerfile");
    const text = await Deno.readTextFile(file);
    await Deno.writeTextFile(file, `${text}\nSTOPSIGNAL SIGKILL\nCMD ["sleep", "100000"]\n`);
    await silently(EXECUTABLE, ["build", "-t", "busybox:1", context], env);
    for (const delay of DELAYS) {
      const own = join(base, `${delay}`);
      await Deno.mkdir(own);
      await beside(server, own, delay);
    }
  } finally {
    await Deno.remove(base, { recursive: true });
  }
}
