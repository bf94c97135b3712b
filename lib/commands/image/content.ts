/**
 * What the running program consists of: its runtime, its code, and the libraries of this system that it has loaded.
 * An image of these alone needs no base, and starts without unpacking anything.
 */
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildInfo } from "../../base/build_info.ts";
import { SvcError } from "../../base/errors.ts";

/** One entry of the image. */
export type Entry =
  | { path: string; kind: "file"; from: string; mode: number }
  | { path: string; kind: "text"; text: string }
  | { path: string; kind: "link"; to: string }
  | { path: string; kind: "folder"; mode: number };

export interface Content {
  entries: Entry[];
  /** The program and its first arguments, as the image runs them. */
  entrypoint: string[];
}

const HOME = "/opt/svc";

/** Where the program's loader is looked for, by the ABI of the architecture. */
const LOADERS = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];

/** Without it the C library would ask a name server for the names in /etc/hosts first. */
const NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n";

/** Paths of the libraries that the process has mapped. */
function libraries(maps: string): string[] {
  const paths = maps.split("\n").map((line) => /\s(\/.+)$/.exec(line)?.[1] ?? "");
  return [...new Set(paths.filter((path) => /\.so(\.|$)/.test(basename(path))))].sort();
}

/** Names that lead to these libraries beside them: programs ask for them by such names. */
function aliases(paths: readonly string[]): Entry[] {
  const known = new Set(paths);
  const links: Entry[] = [];
  for (const folder of new Set(paths.map(dirname))) {
    for (const { name, isSymlink } of Deno.readDirSync(folder)) {
      const path = join(folder, name);
      if (!isSymlink || !name.includes(".so.") || known.has(path)) continue;
      const target = realPath(path);
      if (target && known.has(target)) links.push({ path, kind: "link", to: target });
    }
  }
  return links;
}

function realPath(path: string): string | undefined {
  try {
    return Deno.realPathSync(path);
  } catch {
    return undefined; // a link that leads nowhere
  }
}

/** The loader by the name that the program has for it, and the folders that are links on this system. */
function loader(): Entry[] {
  const links: Entry[] = [];
  for (const path of LOADERS) {
    const real = realPath(path);
    if (!real) continue;
    const folder = dirname(path);
    const at = realPath(folder)!;
    if (at !== folder) links.push({ path: folder, kind: "link", to: at });
    const name = join(at, basename(path));
    if (name !== real) links.push({ path: name, kind: "link", to: real });
  }
  const lib = realPath("/lib");
  if (lib && lib !== "/lib") links.push({ path: "/lib", kind: "link", to: lib });
  return links;
}

function* tree(folder: string, at: string): Generator<Entry> {
  for (const { name, isDirectory, isFile } of Deno.readDirSync(folder)) {
    if (isDirectory) yield* tree(join(folder, name), `${at}/${name}`);
    else if (isFile) {
      yield { path: `${at}/${name}`, kind: "file", from: join(folder, name), mode: 0o644 };
    }
  }
}

/** Files of the program itself, and how it is run. */
function program(): Content {
  const runtime = Deno.execPath();
  const { form } = buildInfo();
  if (form === "compile") {
    const path = `${HOME}/svc`;
    return { entries: [{ path, kind: "file", from: runtime, mode: 0o755 }], entrypoint: [path] };
  }
  const main = fileURLToPath(Deno.mainModule);
  const words = Deno.readTextFileSync("/proc/self/cmdline").split("\0");
  const path = `${HOME}/deno`;
  const folder = dirname(main);
  // What the runtime has made of the code is for other paths.
  const code = [...tree(folder, `${HOME}/app`)]
    .filter((entry) => !entry.path.startsWith(`${HOME}/app/cache/`));
  return {
    entries: [{ path, kind: "file", from: runtime, mode: 0o755 }, ...code],
    entrypoint: [path, ...words.slice(1, words.indexOf(main)), `${HOME}/app/${basename(main)}`],
  };
}

/** Throws `prerequisite_missing` where svc runs from its sources, `unsupported` where this is no Linux. */
export function agentContent(): Content {
  if (Deno.build.os !== "linux") {
    throw new SvcError(
      "unsupported",
      "Cannot make the image: it is for Linux, as is the executable in it",
      {
        help: "run svc image agent on a Linux machine, or take a released image",
      },
    );
  }
  if (buildInfo().form === "source") {
    throw new SvcError(
      "prerequisite_missing",
      "Cannot make the image: svc runs from its sources here",
      {
        help: "run the executable (deno task compile)",
      },
    );
  }
  const { entries, entrypoint } = program();
  const mapped = libraries(Deno.readTextFileSync("/proc/self/maps"));
  return {
    entrypoint,
    entries: [
      ...loader(),
      { path: "/tmp", kind: "folder", mode: 0o1777 },
      { path: "/etc/nsswitch.conf", kind: "text", text: NSSWITCH },
      { path: "/etc/passwd", kind: "text", text: "root:x:0:0:root:/:/sbin/nologin\n" },
      ...mapped.map((path): Entry => ({ path, kind: "file", from: path, mode: 0o755 })),
      ...aliases(mapped),
      ...entries,
    ],
  };
}
