/** The rules of `develop.watch`: which paths of this machine they are about, and where these belong. */
import { exists } from "../../../base/fs.ts";
import { dirname, isAbsolute, join, posix, relative, sep } from "../../../base/path.ts";
import { SvcError } from "../../../base/errors.ts";
import {
  type Ignore,
  ignoreFiles,
  ignorePatterns,
  parseIgnore,
} from "../../../build/parse/ignore.ts";
import { Files } from "../../../compose/files.ts";
import type { LoadedProject } from "../../../compose/project.ts";
import { refusal } from "../../../compose/refusal.ts";
import type { WatchRule } from "../../../compose/service.ts";

/** What version control and editors write beside the files that somebody works on. */
const NEVER = [
  ...["**/.git", "**/.idea", "**/4913", "**/*~", "**/.*.sw?", "**/.*.sw??", "**/.sw?"],
  ...["**/*.bck", "**/*___jb_tmp___", "**/*___jb_old___", "**/.#*", "**/#*#", "**/.~lock.*"],
  ...["**/.DS_Store"],
];

/** One rule of a service. */
export class Watched {
  readonly service: string;
  readonly rule: WatchRule;
  /** What is watched, absolute, without links. */
  readonly root: string;
  readonly isFile: boolean;
  readonly #excluded: { from: string; rules: Ignore }[];
  readonly #included: Ignore | undefined;

  constructor(
    service: string,
    rule: WatchRule,
    { path, isFile, excluded }: {
      path: string;
      isFile: boolean;
      excluded: { from: string; rules: Ignore }[];
    },
  ) {
    const { include = [], ignore = [] } = rule;
    this.service = service;
    this.rule = rule;
    this.root = path;
    this.isFile = isFile;
    this.#excluded = [
      ...excluded,
      { from: path, rules: ignorePatterns(ignore) },
      { from: path, rules: ignorePatterns(NEVER) },
    ];
    this.#included = include.length > 0 ? ignorePatterns(include) : undefined;
  }

  /** Path below the root, with "/"; "" for the root itself; undefined for what is not below it. */
  below(path: string): string | undefined {
    const found = relative(this.root, path).split(sep).join("/");
    return found === ".." || found.startsWith("../") || isAbsolute(found) ? undefined : found;
  }

  /** Whether a change of the path is the rule's. A folder counts as soon as something in it may. */
  wants(path: string, isFolder = false): boolean {
    const below = this.below(path);
    if (below === undefined) return false;
    if (below === "") return true;
    for (const { from, rules } of this.#excluded) {
      const inside = relative(from, path).split(sep).join("/");
      if (inside === "" || inside.startsWith("../") || inside === "..") continue;
      if (isFolder ? rules.canSkipDir(inside) : rules.excludes(inside)) return false;
    }
    return isFolder || !this.#included || this.#included.excludes(below);
  }

  /** Where a path below the root belongs in the container. */
  targetOf(path: string): string {
    return posix.join(this.rule.target ?? "/", this.below(path) ?? "");
  }
}

async function readRules(
  { build }: { build?: { context?: string; dockerfile?: string } },
): Promise<{ from: string; rules: Ignore }[]> {
  const { context, dockerfile = "Dockerfile" } = build ?? {};
  if (!context || !isAbsolute(context)) return [];
  for (const file of ignoreFiles(dockerfile)) {
    const path = isAbsolute(file) ? file : join(context, file);
    if (!await exists(path)) continue;
    const text = await new Files().text(path);
    return [{ from: await Deno.realPath(context), rules: parseIgnore(text, file) }];
  }
  return [];
}

function checkRule(loaded: LoadedProject, name: string, index: number, rule: WatchRule): void {
  const at = (...rest: string[]) => ["services", name, "develop", "watch", index, ...rest];
  const { action, target, exec } = rule;
  if (action === "rebuild" && !loaded.project.services[name].build) {
    throw refusal(loaded, at("action"), `${name} has no build section`, "add one, or sync files");
  }
  if (action.startsWith("sync") && !target?.startsWith("/")) {
    throw refusal(loaded, at("target"), "a sync needs an absolute target");
  }
  if (action === "sync+exec" && !exec?.command?.length) {
    throw refusal(loaded, at("exec"), "there is no command to run", "add exec.command");
  }
  if (exec?.privileged) {
    throw refusal(
      loaded,
      at("exec", "privileged"),
      "a command has the container's own privileges",
    );
  }
}

/** The rules of these services. Throws where one cannot be followed, or there is none. */
export async function watchedOf(
  loaded: LoadedProject,
  names: readonly string[],
): Promise<Watched[]> {
  const found: Watched[] = [];
  for (const name of names) {
    const service = loaded.project.services[name];
    const rules = service.develop?.watch ?? [];
    const excluded = rules.length > 0 ? await readRules(service) : [];
    for (const [index, rule] of rules.entries()) {
      checkRule(loaded, name, index, rule);
      const info = await Deno.stat(rule.path).catch(() => undefined);
      if (!info) {
        const path = ["services", name, "develop", "watch", index, "path"];
        throw refusal(loaded, path, `there is no file or folder ${rule.path}`, "make it first");
      }
      // Changes are told by real paths; and a link would be carried as a link.
      const path = await Deno.realPath(rule.path);
      found.push(new Watched(name, rule, { path, isFile: !info.isDirectory, excluded }));
    }
  }
  if (found.length > 0) return found;
  throw new SvcError(
    "argument_invalid",
    "Cannot watch: none of the selected services is configured for watch",
    { help: "add a develop.watch section" },
  );
}

/** What has to be looked at for these rules: folders with all below them, and folders of single files. */
export function watchedPaths(all: readonly Watched[]): { deep: string[]; flat: string[] } {
  const deep = new Set(all.filter(({ isFile }) => !isFile).map(({ root }) => root));
  // A file that is replaced by another of its name is noticed by its folder alone.
  const flat = new Set(all.filter(({ isFile }) => isFile).map(({ root }) => dirname(root)));
  return { deep: [...deep], flat: [...flat].filter((path) => !deep.has(path)) };
}
