/**
 * Checks the layers of DESIGN.md section 2 on the real import graph (`deno info --json`): each place may
 * import only what its row names, a backend never a sibling, and only main.ts composes. And what starts
 * most often loads none of node's modules before it needs one, and no files import each other in a circle.
 *
 * Exit code 1 lists each offending import.
 */
import { dirname, join, relative } from "node:path";
import { fileURLToPath as fromFileUrl, pathToFileURL as toFileUrl } from "node:url";

const LOW = ["base"];
const OCI = ["oci", "base"];
const HOST = ["containerd", "snapshot", "runtime", "oci", "sys", "base"];

/** Place → the places under lib/ it may import besides itself. */
const MAY: Record<string, readonly string[]> = {
  base: [],
  sys: LOW,
  config: LOW,
  oci: LOW,
  api: OCI,
  wire: ["sys", ...LOW],
  snapshot: ["oci", "sys", "base"],
  runtime: ["oci", "sys", "base"],
  containerd: ["store", "wire", "snapshot", "oci", "sys", "base"],
  docker: ["wire", "oci", "sys", "base"],
  incus: ["docker", "wire", "oci", "sys", "base"],
  store: ["api", "sys", ...OCI],
  registry: ["store", "api", ...OCI],
  remote: ["api", ...OCI],
  build: ["api", "remote", "docker", "wire", ...HOST],
  deploy: ["api", "remote", "incus", "docker", "store", "wire", ...HOST],
  auth: ["api", "base"],
  hub: ["api", "wire", "auth", "base"],
  tunnel: ["api", "wire", "auth", "base"],
  ingress: ["api", "wire", "auth", "base"],
  egress: ["api", "wire", "auth", "base"],
  credentials: ["api", "wire", "base"],
  caretaker: ["api", "credentials", "deploy", "wire", "auth", "base"],
  observe: ["api", "wire", "auth", "base"],
  client: ["api", "credentials", "ingress", "wire", "config", ...OCI],
  dockerapi: [
    ...["client", "transfer", "build", "remote", "docker", "api", "wire", "sys", "config", ...OCI],
  ],
  agent: ["client", "sys", "wire", "api", "base"],
  compose: ["client", "api", "base"],
  transfer: ["client", "remote", "api", ...OCI],
  commands: [
    ...[
      "agent",
      "client",
      "caretaker",
      "compose",
      "dockerapi",
      "credentials",
      "egress",
      "build",
      "remote",
      "transfer",
    ],
    "config",
    ...["api", ...OCI],
  ],
};
const ANY_LIB = ["server"];

/** Folders whose files may import `lib/<name>` and what that may import. */
const BACKENDS = ["store", "deploy", "build", "tunnel", "hub"];

interface Place {
  /** "lib/x", "backends/x", "cli", "main", "test" or "scripts". */
  group: string;
  /** Second part of the path: the layer or kind of backend. */
  name: string;
  /** Third part of a backend's path: its name. */
  member?: string;
}

function placeOf(path: string): Place {
  const parts = path.split("/");
  if (parts[0] === "lib" || parts[0] === "backends") {
    return { group: parts[0], name: parts[1], member: parts[2]?.replace(/(_test)?\.ts$/, "") };
  }
  return { group: parts[0].replace(/\.ts$/, ""), name: "" };
}

/** Why `from` must not import `to`; undefined where it may. */
export function objection(fromPath: string, toPath: string): string | undefined {
  const from = placeOf(fromPath);
  const to = placeOf(toPath);
  if (["main", "test", "scripts"].includes(from.group)) return undefined;
  // Text that commands print and the server sends; not code.
  if (toPath.startsWith("docs/reference/")) return undefined;
  if (["main", "test", "scripts"].includes(to.group)) return `nothing imports ${to.group}`;
  if (from.group === "cli") return to.group === "lib" ? undefined : "cli.ts imports lib only";
  if (to.group === "cli") return "only main.ts imports cli.ts";
  if (from.group === "lib") {
    if (to.group !== "lib") return "lib never imports backends";
    if (from.name === to.name || ANY_LIB.includes(from.name)) return undefined;
    const allowed = MAY[from.name];
    if (!allowed) return `lib/${from.name} has no row in scripts/check_layers.ts`;
    return allowed.includes(to.name)
      ? undefined
      : `lib/${from.name} may import ${allowed.join(", ") || "nothing"}`;
  }
  // The option tables of all backends: this module names the kinds, as the composition root does.
  if (fromPath === "backends/options.ts") {
    return to.member === "mod" || to.name === "config"
      ? undefined
      : "backends/options.ts imports the tables of the kinds";
  }
  if (!BACKENDS.includes(from.name)) {
    return `backends/${from.name} has no row in scripts/check_layers.ts`;
  }
  if (to.group === "lib") {
    return [from.name, "config", ...MAY[from.name] ?? []].includes(to.name)
      ? undefined
      : `backends/${from.name} may import lib/${from.name}, what is below it, and lib/config`;
  }
  const same = to.name === from.name && (to.member === from.member || to.member === "shared");
  // mod.ts is the table of its kind: only this module may import the backends.
  return same || (to.name === from.name && from.member === "mod")
    ? undefined
    : "a backend never imports a sibling";
}

/** Modules that must start without node's: the first of these takes as long as the rest of a start. */
const WITHOUT_NODE = [
  "main.ts",
  ...["build", "completion", "deploy", "exec", "info", "logs", "power", "ps", "status", "version"]
    .map((name) => `lib/commands/${name}.ts`),
];

export interface Graph {
  modules: {
    specifier: string;
    dependencies?: {
      code?: { specifier?: string };
      type?: { specifier?: string };
      isDynamic?: boolean;
    }[];
  }[];
}

/** Each of node's modules that `start` loads statically, with the chain of imports that leads to it. */
export function nodeLoads(graph: Graph, start: string): string[][] {
  const byName = new Map(graph.modules.map((module) => [module.specifier, module]));
  const ways = new Map([[start, [start]]]);
  // The map grows during this loop.
  for (const [name, way] of ways) {
    for (const { code, isDynamic } of byName.get(name)?.dependencies ?? []) {
      const next = code?.specifier;
      if (next !== undefined && !isDynamic && !ways.has(next)) ways.set(next, [...way, next]);
    }
  }
  return [...ways.values()].filter((way) => way.at(-1)!.startsWith("node:"));
}

/** One circle of imports, types included, as a path that ends where it begins; undefined: there is none. */
export function circle(imports: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>();
  const way: string[] = [];
  const walk = (file: string): string[] | undefined => {
    if (way.includes(file)) return [...way.slice(way.indexOf(file)), file];
    if (done.has(file)) return undefined;
    way.push(file);
    for (const next of imports.get(file) ?? []) {
      const found = walk(next);
      if (found) return found;
    }
    way.pop();
    done.add(file);
    return undefined;
  };
  for (const file of imports.keys()) {
    const found = walk(file);
    if (found) return found;
  }
  return undefined;
}

async function sources(root: string, dir: string): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of Deno.readDir(join(root, dir))) {
    const path = `${dir}/${entry.name}`;
    if (entry.isDirectory) found.push(...await sources(root, path));
    else if (/\.tsx?$/.test(entry.name) && !/_test\.tsx?$/.test(entry.name)) found.push(path);
  }
  return found.sort();
}

async function graphOf(root: string, files: string[]): Promise<Graph> {
  const entry = await Deno.makeTempFile({ dir: root, prefix: ".layers-", suffix: ".ts" });
  try {
    await Deno.writeTextFile(
      entry,
      files.map((file) => `import ${JSON.stringify(`./${file}`)};\n`).join(""),
    );
    const output = await new Deno.Command(Deno.execPath(), {
      args: ["info", "--json", entry],
      cwd: root,
      stderr: "inherit",
    }).output();
    if (!output.success) throw new Error(`deno info --json exited with ${output.code}`);
    return JSON.parse(new TextDecoder().decode(output.stdout));
  } finally {
    await Deno.remove(entry);
  }
}

if (import.meta.main) {
  const root = dirname(dirname(fromFileUrl(import.meta.url)));
  const files = [
    ...await sources(root, "lib"),
    ...await sources(root, "backends"),
    "cli.ts",
    "main.ts",
  ];
  const graph = await graphOf(root, files);
  const local = (specifier?: string) =>
    specifier?.startsWith("file:") ? relative(root, fromFileUrl(specifier)) : undefined;
  const wrong = new Set<string>();
  let edges = 0;
  const imports = new Map<string, string[]>();
  for (const module of graph.modules) {
    const from = local(module.specifier);
    if (!from || from.startsWith(".layers-")) continue;
    for (const dependency of module.dependencies ?? []) {
      const to = local(dependency.code?.specifier ?? dependency.type?.specifier);
      if (!to || to.startsWith("..")) continue;
      edges++;
      if (!dependency.isDynamic) imports.set(from, [...imports.get(from) ?? [], to]);
      const why = objection(from, to);
      if (why) wrong.add(`${from} imports ${to}: ${why}`);
    }
  }
  const found = circle(imports);
  if (found) {
    wrong.add(
      `${found.join(" imports ")}: files do not import each other, types neither; what both need ` +
        "stands in a third",
    );
  }
  for (const start of WITHOUT_NODE) {
    if (!files.includes(start)) wrong.add(`${start} is named in WITHOUT_NODE, but is not there`);
    for (const way of nodeLoads(graph, toFileUrl(join(root, start)).href)) {
      wrong.add(
        `${way.map((name) => local(name) ?? name).join(" imports ")}: ` +
          "import it where it is used (await import), for it slows every start",
      );
    }
  }
  for (const line of wrong) console.error(line);
  console.log(`layers: ${files.length} files, ${edges} imports, ${wrong.size} offending`);
  if (wrong.size > 0) Deno.exit(1);
}
