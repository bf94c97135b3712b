/**
 * Writes the executable, `dist/svc`: by `deno compile` where Deno's base binary can be had (network,
 * cache, DENORT_BIN), else as a launcher that carries Deno itself (scripts/build/launcher.ts).
 */
import { parseArgs } from "node:util";
import { basename, dirname, join, resolve } from "node:path";
import config from "../deno.json" with { type: "json" };
import type { BuildForm, BuildInfo } from "../lib/base/build_info.ts";
import { formatBytes } from "../lib/base/bytes.ts";
import { WORKERS } from "../lib/base/worker.ts";
import { bundle, ENTRY, ROOT } from "./build/bundle.ts";
import { packRuntime, RUNTIME_ARGS, writeLauncher } from "./build/launcher.ts";
import { sourceFacts, sourceHash } from "./build/sources.ts";

/** The version that scripts/deno gives: the one the launcher may carry. */
const PINNED = "2.9.6";

/**
 * What is loaded together: by workers too, by every command, by those that ask a server. Each group is imported
 * by later ones only (docs/decisions/client-start.md).
 */
const TOGETHER = {
  base: ["errors", "bytes", "duration", "nearest", "path"].map((name) => `lib/base/${name}.ts`)
    .concat("lib/oci/reference.ts"),
  start: ["main.ts", "lib/base/build_info.ts", "lib/base/worker.ts"],
  client: ["lib/commands/connect.ts", "lib/client/client.ts", "lib/commands/ps.ts"],
};

const HELP = `deno task compile [options]

  --output FILE    default dist/svc
  --target TRIPLE  another platform, as deno compile names it (x86_64-unknown-linux-gnu,
                   aarch64-unknown-linux-gnu, x86_64-apple-darwin, aarch64-apple-darwin,
                   x86_64-pc-windows-msvc); deno compile only
  --form FORM      compile, launcher, or auto (default): compile where it can, else launcher
  --tag TAG        a build tag, repeatable: cloudblob adds gs:// and azblob:// storage
  --if-stale       do nothing where the file is newer than the sources`;

interface Options {
  output: string;
  target?: string;
  form: "auto" | "compile" | "launcher";
  tags: string[];
  ifStale: boolean;
}

function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      output: { type: "string" },
      target: { type: "string" },
      form: { type: "string", default: "auto" },
      tag: { type: "string", multiple: true, default: [] },
      "if-stale": { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    Deno.exit(0);
  }
  const form = values.form as Options["form"];
  if (!["auto", "compile", "launcher"].includes(form)) {
    throw new Error(`Cannot compile: --form ${form} is not one of auto, compile, launcher`);
  }
  if (values.target && form === "launcher") {
    throw new Error(
      "Cannot compile: a launcher carries this machine's Deno; --target needs compile",
    );
  }
  const name = values.target?.includes("windows") ? "svc.exe" : "svc";
  return {
    output: resolve(
      values.output ?? join(ROOT, "dist", values.target ? `${values.target}/${name}` : name),
    ),
    target: values.target,
    form,
    tags: values.tag,
    ifStale: values["if-stale"],
  };
}

/** Runs `deno compile` on the bundle; undefined where it worked, else its error output. */
async function tryCompile(bundleDir: string, options: Options): Promise<string | undefined> {
  // deno compile refuses to replace a file that it did not make, and writes in place.
  const fresh = join(dirname(bundleDir), basename(options.output));
  const output = await new Deno.Command(Deno.execPath(), {
    args: [
      "compile",
      "--quiet",
      "-A",
      "--no-check",
      "--no-config",
      "--no-lock",
      "--unstable-no-legacy-abort",
      "--app-name",
      "svc",
      // workers and lazily imported chunks, which the graph of the entry does not name
      "--include",
      bundleDir,
      ...options.target ? ["--target", options.target] : [],
      "--output",
      fresh,
      join(bundleDir, ENTRY),
    ],
    stdin: "null",
    // The certificates that the executable trusts by default: the machine's beside Deno's list.
    env: { NO_COLOR: "1", DENO_TLS_CA_STORE: "system,mozilla" },
  }).output();
  if (!output.success) return new TextDecoder().decode(output.stderr).trim();
  await Deno.rename(fresh, options.output);
  return undefined;
}

/** Why `deno compile` failed, on one line: the most telling cause, without Deno's stack frames. */
function briefly(refusal: string): string {
  const lines = refusal.split("\n").map((line) => line.trim());
  const line = lines.find((line) => /^\d+: error sending request/.test(line)) ??
    lines.find((line) => /^\d+: /.test(line) && !line.includes("<unknown>")) ?? lines[0];
  return line.replace(/^(error|\d+): /, "").slice(0, 240);
}

async function compile(options: Options): Promise<BuildForm> {
  if (Deno.version.deno !== PINNED) {
    throw new Error(
      `Cannot compile: this is Deno ${Deno.version.deno}, the project is pinned to ${PINNED}; ` +
        "run it through scripts/deno",
    );
  }
  const facts = await sourceFacts();
  const stampFile = join(dirname(options.output), `.${basename(options.output)}.sources`);
  const stamp = await sourceHash({
    ...facts,
    form: options.form,
    tags: options.tags,
    target: options.target ?? Deno.build.target,
  });
  await Deno.mkdir(dirname(options.output), { recursive: true });
  if (options.ifStale) {
    const [built, form] = (await Deno.readTextFile(stampFile).catch(() => "")).split(" ");
    const there = await Deno.stat(options.output).then((info) => info.isFile, () => false);
    if (there && built === stamp) {
      console.error(`${options.output} is up to date`);
      return form as BuildForm;
    }
  }
  const work = await Deno.makeTempDir({ dir: dirname(options.output), prefix: ".build-" });
  const make = async (form: BuildForm) => {
    const info: BuildInfo = { version: config.version, ...facts, form, tags: options.tags };
    const outDir = join(work, form);
    await bundle({ main: "main.ts", workers: WORKERS, together: TOGETHER, info, outDir });
    return outDir;
  };
  let form: BuildForm = "launcher";
  try {
    if (options.form !== "launcher") {
      const refusal = await tryCompile(await make("compile"), options);
      if (refusal === undefined) form = "compile";
      else if (options.form === "compile" || options.target) {
        throw new Error(`Cannot compile: deno compile refused: ${briefly(refusal)}`);
      } else {
        console.error(
          `deno compile has no base binary here, so this is a launcher: ${briefly(refusal)}`,
        );
      }
    }
    if (form === "launcher") {
      await writeLauncher({
        bundleDir: await make("launcher"),
        runtime: await packRuntime(Deno.execPath(), join(ROOT, "dist/.cache")),
        runtimeArgs: RUNTIME_ARGS,
        output: options.output,
      });
    }
  } finally {
    await Deno.remove(work, { recursive: true });
  }
  await Deno.writeTextFile(stampFile, `${stamp} ${form}\n`);
  const { size } = await Deno.stat(options.output);
  console.error(`wrote ${options.output} (${form}, ${formatBytes(size)})`);
  return form;
}

if (import.meta.main) {
  try {
    await compile(readOptions(Deno.args));
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    Deno.exit(1);
  }
}
