/**
 * `deno task ok`: the checks that a change must pass before it is committed. Runs the checks of the sources and
 * the tests of each folder, four jobs at once, the longest first.
 */
import { statfsSync } from "node:fs";

const LANES = 4;

/** Tests that use this machine's mounts, bridges and runtimes: run one after the other, as they mostly wait. */
const HOST = ["backends/build/", "lib/runtime/", "lib/snapshot/", "lib/sys/", "lib/deploy/"];

/** The suites of engines, which start daemons and containers for minutes: only `scripts/test` runs them. */
const ENGINES =
  /^test\/contract\/(deploy_backend|bare\w*|containerd\w*|docker\w*|incus\w*|podman\w*)_test\.ts$/;

const CHECKS = [
  ["check", "-q", "."],
  ["lint", "-q"],
  ["fmt", "--check", "-q"],
  ["run", "-A", "scripts/check_layers.ts"],
  ["run", "-A", "scripts/check_reads.ts"],
  ["run", "-A", "scripts/docs.ts", "--check"],
];

/** The longest jobs first; other folders follow. */
const LONG = [
  "host",
  "test/contract",
  "lib/server",
  "lib/build",
  "lib/wire",
  "backends/store",
  "lib/client",
  "lib/commands",
];

async function testsBelow(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory) found.push(...await testsBelow(path));
    else if (/_test\.tsx?$/.test(name)) found.push(path);
  }
  return found.sort();
}

/** "lib/server" of "lib/server/http/x_test.ts". */
function jobOf(path: string): string {
  if (HOST.some((begin) => path.startsWith(begin))) return "host";
  return path.split("/").slice(0, path.startsWith("scripts/") ? 1 : 2).join("/");
}

async function jobs(): Promise<string[][]> {
  const folders = ["lib", "backends", "test/contract", "scripts"];
  const files = (await Promise.all(folders.map(testsBelow))).flat()
    .filter((path) => !ENGINES.test(path));
  const tests = [...Map.groupBy(files, jobOf)];
  const rank = ([name]: [string, string[]]) => LONG.includes(name) ? LONG.indexOf(name) : Infinity;
  tests.sort((a, b) => rank(a) === rank(b) ? 0 : rank(a) - rank(b));
  const testJobs = tests.map(([, files]) => ["test", "-A", "-q", "--no-check", ...files]);
  return [testJobs[0], CHECKS[0], ...testJobs.slice(1), ...CHECKS.slice(1)];
}

/** Puts the tests' temporary files in memory if there is room: most of their time went into folders on disk. */
async function temporary(): Promise<{ folder?: string } & AsyncDisposable> {
  const memory = "/dev/shm";
  const none = { [Symbol.asyncDispose]: () => Promise.resolve() };
  try {
    const { bavail, bsize } = statfsSync(memory);
    const mounts = await Deno.readTextFile("/proc/self/mounts");
    const flags = mounts.split("\n").findLast((line) => line.split(" ")[1] === memory);
    // Tests run programs that they write, and make devices: the file system must allow both.
    if (bavail * bsize < 4 * 2 ** 30 || /\bno(exec|dev|suid)\b/.test(flags ?? "nodev")) return none;
    const folder = await Deno.makeTempDir({ dir: memory, prefix: "ok-" });
    return {
      folder,
      [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
    };
  } catch {
    return none;
  }
}

async function run(args: string[], folder: string | undefined): Promise<boolean> {
  const began = performance.now();
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args,
    env: folder === undefined ? {} : { TMPDIR: folder },
  }).output();
  const words = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  const summary = /^.*\d+ passed.*$/m.exec(words)?.[0] ?? "";
  const shown = args[0] === "test"
    ? `test ${jobOf(args[4])}: ${args.length - 4} files`
    : args.join(" ");
  const seconds = Math.round((performance.now() - began) / 1000);
  console.log(`${success ? "ok    " : "FAILED"} deno ${shown} ${summary} ${seconds} s`);
  if (!success) console.log(words);
  return success;
}

if (import.meta.main) {
  await using temp = await temporary();
  const left = await jobs();
  let good = true;
  const lane = async () => {
    for (let job = left.shift(); job; job = left.shift()) {
      good = await run(job, temp.folder) && good;
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  if (!good) Deno.exitCode = 1;
}
