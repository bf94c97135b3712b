import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { join } from "node:path";
import { bundle, ROOT } from "./bundle.ts";
import { RUNTIME_ARGS, writeLauncher } from "./launcher.ts";

/** Stands for Deno: a shell program, so that the launcher's own behaviour is what is looked at. */
const FAKE_RUNTIME = `#!/bin/sh
if [ "$1" = --version ]; then echo fake; exit 0; fi
echo "pid=$$ app=$(dirname "$2")"
shift 2
for word in "$@"; do echo "[$word]"; done
[ "$1" = cat ] && cat
[ "$1" = wait ] && { trap 'echo got TERM; exit 7' TERM; echo ready; while :; do sleep 0.05; done; }
exit 42
`;

async function fixture(): Promise<{ dir: string; file: string } & AsyncDisposable> {
  const dir = await Deno.makeTempDir({ prefix: "svc-launcher-" });
  await Deno.mkdir(join(dir, "bundle"));
  await Deno.writeTextFile(join(dir, "bundle/svc.js"), "// the program");
  const bytes = new TextEncoder().encode(FAKE_RUNTIME);
  const file = join(dir, "svc");
  await writeLauncher({
    bundleDir: join(dir, "bundle"),
    runtime: { gzip: new Uint8Array(gzipSync(bytes)), hash: "fake" },
    runtimeArgs: ["run"],
    output: file,
  });
  return { dir, file, [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }) };
}

async function start(
  file: string,
  args: string[],
  env: Record<string, string>,
  stdin?: string,
) {
  const child = new Deno.Command(file, {
    args,
    clearEnv: true,
    env: { PATH: "/usr/bin:/bin", ...env },
    stdin: stdin === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  if (stdin !== undefined) {
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(stdin));
    await writer.close();
  }
  const output = await child.output();
  return {
    pid: child.pid,
    code: output.code,
    stdout: new TextDecoder().decode(output.stdout),
    stderr: new TextDecoder().decode(output.stderr),
  };
}

Deno.test("launcher: arguments, standard input, exit code and process id are the program's", async () => {
  await using made = await fixture();
  const env = { HOME: made.dir };
  for (let round = 0; round < 2; round++) { // the first unpacks, the second finds it
    const result = await start(made.file, ["cat", "", "two words", "$x'\"*"], env, "from stdin\n");
    assert.equal(result.code, 42, result.stderr);
    assert.match(result.stdout, new RegExp(`^pid=${result.pid} `));
    assert.ok(
      result.stdout.endsWith(`[cat]\n[]\n[two words]\n[$x'"*]\nfrom stdin\n`),
      result.stdout,
    );
    assert.equal(result.stderr, "");
  }
  assert.equal((await Deno.stat(join(made.dir, ".cache/svc/bin"))).mode! & 0o777, 0o700);
});

Deno.test("launcher: a signal reaches the program itself", async () => {
  await using made = await fixture();
  const child = new Deno.Command(made.file, {
    args: ["wait"],
    clearEnv: true,
    env: { PATH: "/usr/bin:/bin", HOME: made.dir },
    stdout: "piped",
  }).spawn();
  let text = "";
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (text.endsWith("ready\n")) child.kill("SIGTERM");
  }
  assert.match(text, /got TERM/);
  assert.equal((await child.status).code, 7);
});

Deno.test("launcher: many first starts at once all run", async () => {
  await using made = await fixture();
  const results = await Promise.all(
    Array.from({ length: 8 }, () => start(made.file, ["x"], { HOME: made.dir })),
  );
  for (const result of results) assert.equal(result.code, 42, result.stderr);
  const left = [...Deno.readDirSync(join(made.dir, ".cache/svc/bin"))].map((e) => e.name);
  assert.equal(left.filter((name) => name.startsWith(".new")).length, 0, left.join(" "));
});

Deno.test("launcher: without a usable home it unpacks below TMPDIR", async () => {
  await using made = await fixture();
  const tmp = join(made.dir, "tmp");
  await Deno.mkdir(tmp);
  for (const env of [{ TMPDIR: tmp }, { TMPDIR: tmp, HOME: "/proc" }] as Record<string, string>[]) {
    const result = await start(made.file, ["x"], env);
    assert.equal(result.code, 42, result.stderr);
    assert.match(result.stdout, new RegExp(`app=${tmp}/svc-bin-\\d+/`));
  }
});

Deno.test("launcher: code in a folder that others may write to is not run", async () => {
  await using made = await fixture();
  const env = { HOME: made.dir };
  await start(made.file, [], env);
  const bin = join(made.dir, ".cache/svc/bin");
  await Deno.writeTextFile(join(bin, "planted"), "");
  await Deno.chmod(bin, 0o777);
  const result = await start(made.file, [], env);
  assert.equal(result.code, 42);
  // It is the caller's own folder, so it is made anew and closed.
  assert.equal((await Deno.stat(bin)).mode! & 0o777, 0o700);
  await assert.rejects(Deno.stat(join(bin, "planted")), Deno.errors.NotFound);
});

Deno.test({
  name: "launcher: a folder planted by another user is passed over",
  ignore: Deno.build.os !== "linux" || Deno.uid() !== 0,
  fn: async () => {
    await using made = await fixture();
    const planted = join(made.dir, "planted");
    const app = (await start(made.file, [], { XDG_CACHE_HOME: planted, HOME: made.dir })).stdout;
    assert.match(app, new RegExp(`app=${planted}/svc/bin/`));
    const chown = new Deno.Command("chown", { args: ["-R", "65534", planted] });
    assert.ok((await chown.output()).success);
    const result = await start(made.file, [], { XDG_CACHE_HOME: planted, HOME: made.dir });
    assert.equal(result.code, 42, result.stderr);
    assert.match(result.stdout, new RegExp(`app=${made.dir}/\\.cache/svc/bin/`));
  },
});

Deno.test("launcher: where nothing can be unpacked it says so and exits with 125", async () => {
  await using made = await fixture();
  const result = await start(made.file, [], { HOME: "/proc", TMPDIR: "/proc" });
  assert.equal(result.code, 125);
  assert.match(result.stderr, /^Cannot unpack svc: .*set XDG_CACHE_HOME\n$/);
});

/** The files that `entry` loads before its code runs. */
async function localImports(dir: string, entry: string): Promise<string[]> {
  const found = new Set([entry]);
  // The set grows during this loop.
  for (const name of found) {
    const text = await Deno.readTextFile(join(dir, name));
    for (const [, other] of text.matchAll(/^(?:import|\}).* ?"\.\/([\w.-]+)";$/gm)) {
      found.add(other);
    }
  }
  return [...found].sort();
}

Deno.test("bundle: lazy imports and workers run from the bundle, and the launcher's variables end there", async () => {
  const dir = await Deno.makeTempDir({ prefix: "svc-bundle-" });
  try {
    const worker = join(dir, "w.ts");
    await Deno.writeTextFile(
      worker,
      `import "./kind.ts";
       import { parse } from "yaml"; // a CommonJS package that requires node's modules
       self.onmessage = (e) => { self.postMessage(parse(e.data)); self.close(); };`,
    );
    await Deno.writeTextFile(
      join(dir, "kind.ts"),
      `export class Kind {}; export const kinds = [];`,
    );
    await Deno.writeTextFile(join(dir, "other.ts"), `import "./kind.ts"; export const kinds = 1;`);
    await Deno.writeTextFile(
      join(dir, "lazy.ts"),
      `import { Kind, kinds } from "./kind.ts";
       kinds.push(new Kind());
       export const word = "lazy";`,
    );
    const main = join(dir, "m.ts");
    const at = (path: string) => JSON.stringify(join(ROOT, path));
    await Deno.writeTextFile(
      main,
      `import { buildInfo } from ${at("lib/base/build_info.ts")};
       import { startWorker, type WorkerName } from ${at("lib/base/worker.ts")};
       import { parse } from "yaml";
       import { Kind, kinds } from "./kind.ts";
       import { kinds as number } from "./other.ts";
       let closed = false;
       async function once() {
         using file = { use: async () => {}, [Symbol.dispose]: () => { closed = true; } };
         await file.use();
       }
       export async function main() {
         await once();
         const { word } = await import("./lazy.ts");
         const worker = startWorker("double" as WorkerName);
         const answer = await new Promise((done) => {
           worker.onmessage = (e) => done(e.data);
           worker.postMessage("42");
         });
         console.log(JSON.stringify([parse(word), kinds[0] instanceof Kind, number, answer, buildInfo(), closed, Deno.env.get("DENO_DIR") ?? null]));
       }`,
    );
    const outDir = join(dir, "out");
    const info = {
      version: "1.2.3",
      dirty: false,
      form: "launcher",
      tags: ["t"],
    } as const;
    const together = { low: [join(dir, "kind.ts")], all: [main, join(dir, "other.ts")] };
    await bundle({ main, workers: { double: worker }, together, info, outDir });
    const output = await new Deno.Command(Deno.execPath(), {
      args: [...RUNTIME_ARGS, join(outDir, "svc.js")],
      env: { SVC_LAUNCHER_PATH: "/x/svc", SVC_LAUNCHER_DENO_DIR: "", DENO_DIR: join(dir, "cache") },
    }).output();
    const said = new TextDecoder().decode(output.stdout);
    const loaded = await localImports(outDir, "svc.js");
    assert.deepEqual(loaded, ["all.js", "low.js", "svc.js"]);
    assert.deepEqual(
      JSON.parse(said || new TextDecoder().decode(output.stderr)),
      ["lazy", true, 1, 42, { ...info, executable: "/x/svc" }, true, null],
    );
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
