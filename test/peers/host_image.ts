/**
 * An image with programs of this host and their libraries: a stand-in for the image of its distribution, where
 * no public registry is in reach. The executable under test runs in it as it does here.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { runTool } from "../e2e/harness.ts";

/** What the executable's launcher, and the engine of builds, start. */
const PROGRAMS = [
  "sh cat chmod chown cp head id ln ls mkdir mktemp mount mv rm sleep tail tar gzip true umount",
  "env ip iptables iptables-restore iptables-save nsenter ss unshare",
].join(" ").split(" ");

const FOLDERS = ["bin", "sbin", "lib", "lib64"];
const PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export interface HostImageOptions {
  /** Docker's client, speaking to the daemon that gets the image. */
  docker: (...args: string[]) => Promise<unknown>;
  name: string;
  /** Scratch folder. */
  folder: string;
  /** Further programs of this host. */
  programs?: string[];
  /** Path → text of an executable script, or another path of this host that is copied there. */
  files?: Record<string, { script: string } | { from: string }>;
}

function found(name: string): string {
  if (name.startsWith("/")) return name;
  const path = PATHS.split(":").map((folder) => join(folder, name)).find((path) =>
    existsSync(path)
  );
  if (path === undefined) throw new Error(`this host has no ${name}`);
  return path;
}

/** The shared libraries of a program, with its loader; none for a static one. */
async function librariesOf(path: string): Promise<string[]> {
  const { stdout } = await new Deno.Command("ldd", { args: [path], stderr: "null" }).output();
  return new TextDecoder().decode(stdout).match(/\/\S+/g)?.filter((word) => !word.endsWith(":")) ??
    [];
}

/** Makes the image in the daemon. */
export async function importHostImage(options: HostImageOptions): Promise<void> {
  const { docker, name, folder, programs = [], files = {} } = options;
  const root = join(folder, "root");
  for (const path of ["etc", "tmp", "root", "proc", "sys", "dev", "run", "var/lib"]) {
    await Deno.mkdir(join(root, path), { recursive: true });
  }
  for (const path of FOLDERS) {
    await Deno.mkdir(join(root, "usr", path), { recursive: true });
    await Deno.symlink(`usr/${path}`, join(root, path));
  }
  const copy = async (from: string, to = from) => {
    await Deno.mkdir(dirname(join(root, to)), { recursive: true });
    await Deno.copyFile(await Deno.realPath(from), join(root, to));
  };
  // The launcher carries Deno itself, and not its libraries.
  const libraries = await librariesOf(Deno.execPath());
  const plugins = ["bridge", "host-local", "loopback"]
    .map((plugin) => `/usr/lib/cni/${plugin}`);
  for (const wanted of [...PROGRAMS, ...plugins, ...libraries, ...programs]) {
    const path = found(wanted);
    for (const needed of [path, ...await librariesOf(path)]) await copy(needed);
  }
  // What iptables loads as it goes.
  const { stdout } = await runTool("sh", ["-c", "ls -d /usr/lib/*/xtables"]);
  const modules = stdout.trim();
  await Deno.mkdir(join(root, dirname(modules)), { recursive: true });
  await runTool("cp", ["-a", modules, join(root, modules)]);
  for (const [path, content] of Object.entries(files)) {
    if ("from" in content) {
      await copy(found(content.from), path);
      for (const library of await librariesOf(found(content.from))) await copy(library);
      continue;
    }
    await Deno.writeTextFile(join(root, path), content.script);
    await Deno.chmod(join(root, path), 0o755);
  }
  await Deno.writeTextFile(join(root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n");
  await Deno.writeTextFile(join(root, "etc/group"), "root:x:0:\n");
  await Deno.chmod(join(root, "tmp"), 0o1777);
  const archive = join(folder, "root.tar");
  await runTool("tar", ["-C", root, "-cf", archive, "."]);
  await docker("import", "-c", `ENV PATH=${PATHS}`, archive, name);
  await Deno.remove(root, { recursive: true });
  await Deno.remove(archive);
}
