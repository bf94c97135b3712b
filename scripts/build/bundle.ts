/** Bundles the program: one entry for it, one for each worker, shared chunks; dynamic imports stay lazy. */
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { BuildInfo } from "../../lib/base/build_info.ts";
import { joinFiles } from "./join.ts";

export const ROOT = resolve(import.meta.dirname!, "../..");

/** Name of the entry within the bundle. */
export const ENTRY = "svc.js";

/** Build tag → packages that only a build with this tag contains. */
const TAGGED: Record<string, readonly string[]> = {
  cloudblob: ["@azure/identity", "@azure/storage-blob", "@google-cloud/storage"],
};

export interface BundleOptions {
  /** Path of the module that is the program: runs when imported, or exports `main`. */
  main: string;
  /** Name → path of the worker's module. */
  workers: Record<string, string>;
  /** Name of a file → paths of the modules that are loaded together from it, with what they import. */
  together?: Record<string, readonly string[]>;
  info: BuildInfo;
  /** Created by the bundler; must not exist. */
  outDir: string;
}

/**
 * CommonJS packages ask for node's own modules through `require`, which a bundle of ES modules lacks. Looked
 * up when it is called, so it costs nothing at the start. Some ask for the folder that they stand in, too.
 */
const REQUIRE = `globalThis.require ??= (name) => {
  const found = process.getBuiltinModule(name);
  if (found === undefined) throw new Error("Cannot require " + name + ": it is not in the bundle");
  return found;
};
globalThis.__dirname ??= import.meta.dirname;
`;

/**
 * Removes the launcher's own variables, which child processes must not inherit. A `DENO_DIR` of the caller is
 * restored.
 */
function entrySource(main: string, info: BuildInfo): string {
  const module = (path: string) => JSON.stringify(pathToFileURL(resolve(ROOT, path)).href);
  return `import { setBuildInfo } from ${module("lib/base/build_info.ts")};
import { setBuiltWorkers } from ${module("lib/base/worker.ts")};
import "./require.ts";
const executable = Deno.env.get("SVC_LAUNCHER_PATH");
const denoDir = Deno.env.get("SVC_LAUNCHER_DENO_DIR");
if (executable !== undefined) {
  for (const name of ["SVC_LAUNCHER_PATH", "SVC_LAUNCHER_DENO_DIR", "DENO_DIR", "DENO_NO_UPDATE_CHECK"]) {
    Deno.env.delete(name);
  }
  if (denoDir) Deno.env.set("DENO_DIR", denoDir);
}
setBuildInfo({ ...${JSON.stringify(info)}, executable: executable ?? Deno.execPath() });
setBuiltWorkers(new URL("./", import.meta.url));
const program = await import(${module(main)});
if (typeof program.main === "function") await program.main();
`;
}

/**
 * Not minified: the minifier inlines a `using` variable that is used once, and then nothing disposes of it.
 */
async function denoBundle(what: string, args: string[]): Promise<void> {
  const output = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["bundle", "--quiet", "--config", join(ROOT, "deno.json"), "--platform", "deno"],
      ...args,
    ],
    cwd: ROOT,
    env: { NO_COLOR: "1" },
    stdin: "null",
  }).output();
  if (output.success) return;
  const words = new TextDecoder().decode(output.stderr).trim();
  const hint = words.includes("esbuild")
    ? "\n(the first bundling fetches esbuild from the npm registry)"
    : "";
  throw new Error(`Cannot bundle ${what}: ${words}${hint}`);
}

/** Writes the bundle into `outDir`. Throws with the bundler's own words. */
export async function bundle(options: BundleOptions): Promise<void> {
  await Deno.mkdir(join(ROOT, "dist"), { recursive: true });
  const work = await Deno.makeTempDir({ dir: join(ROOT, "dist"), prefix: ".entries-" });
  try {
    const entries = [join(work, ENTRY.replace(/\.js$/, ".ts"))];
    await Deno.writeTextFile(entries[0], entrySource(options.main, options.info));
    await Deno.writeTextFile(join(work, "require.ts"), REQUIRE);
    const add = async (name: string, paths: readonly string[]) => {
      const entry = join(work, `${name}.ts`);
      const modules = paths.map((path) => pathToFileURL(resolve(ROOT, path)).href);
      // Static imports: messages that come to a worker before its handler is set would be lost.
      const lines = ["./require.ts", ...modules].map((it) => `import ${JSON.stringify(it)};\n`);
      await Deno.writeTextFile(entry, lines.join(""));
      entries.push(entry);
    };
    for (const [name, path] of Object.entries(options.workers)) await add(`worker-${name}`, [path]);
    const together = Object.entries(options.together ?? {});
    for (const [name, paths] of together) await add(name, paths);
    const absent = Object.entries(TAGGED)
      .flatMap(([tag, packages]) => options.info.tags.includes(tag) ? [] : packages);
    await denoBundle(options.main, [
      "--code-splitting",
      // Optional native parts of ssh2: it works without them, and they cannot be bundled.
      "--external=cpu-features",
      "--external=*.node",
      ...absent.map((name) => `--external=${name}`),
      "--outdir",
      options.outDir,
      ...entries,
    ]);
    await keepLazy(options.outDir);
    const files = together.map(([name]) => `${name}.js`);
    await joinFiles(
      options.outDir,
      files,
      (from, to) =>
        denoBundle(from, [...files.map((name) => `--external=./${name}`), "--output", to, from]),
    );
  } finally {
    await Deno.remove(work, { recursive: true });
  }
}

/** The last line of a chunk that holds only a CommonJS package. */
const COMMON_JS = /^export default require_\w+\(\);\s*$/m;

/** The bundler's `require` for CommonJS packages: it loads node's modules into every process at the start. */
const EAGER_REQUIRE =
  /^import \{ createRequire as (\w+) \} from "node:module";\s*var __require = \1\(import\.meta\.url\);$/m;
const LAZY_REQUIRE = "var __require = (name) => globalThis.require(name);";

/**
 * Deno reads every module that an `import("…")` names before it runs the first one: the client's shortest
 * command would parse the whole server. An expression instead of the bare string is looked at when it is
 * reached.
 *
 * A chunk of a CommonJS package exports its `default` only, whereas `import("yaml")` of the sources gives
 * the package's names too: they are put back.
 */
async function keepLazy(outDir: string): Promise<void> {
  const texts = new Map<string, string>();
  for await (const { name } of Deno.readDir(outDir)) {
    if (name.endsWith(".js")) texts.set(name, await Deno.readTextFile(join(outDir, name)));
  }
  const isCommonJs = (name: string) => {
    const text = texts.get(name) ?? "";
    return COMMON_JS.test(text) && !/^export \{/m.test(text);
  };
  for (const [name, text] of texts) {
    const lazy = text.replace(EAGER_REQUIRE, LAZY_REQUIRE).replace(
      /\bimport\("\.\/([\w.-]+\.js)"\)/g,
      (_, chunk: string) => {
        const load = `import((0, "./${chunk}"))`;
        return isCommonJs(chunk)
          ? `${load}.then((it) => ({ ...it.default, default: it.default }))`
          : load;
      },
    );
    if (lazy !== text) await Deno.writeTextFile(join(outDir, name), lazy);
  }
}
