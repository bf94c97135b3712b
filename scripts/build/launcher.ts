/**
 * A self-contained executable for where `deno compile` has no base binary: a POSIX shell header, the
 * bundled code (tar.gz) and the Deno binary (gz), in one file.
 *
 * The first start unpacks both into the caller's cache folder, under names made of their content's
 * hashes, and every start execs Deno in the shell's place: process id, signals, exit code, arguments and
 * standard streams are the program's own.
 */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { join } from "node:path";
import { tar } from "./tar.ts";
import { ENTRY } from "./bundle.ts";

export interface LauncherOptions {
  /** Folder of the bundle. */
  bundleDir: string;
  /** gzip of the runtime's binary, and the hash of what is in it. */
  runtime: { gzip: Uint8Array<ArrayBuffer>; hash: string };
  /** Arguments between the runtime and the entry. */
  runtimeArgs: string[];
  output: string;
}

/** The arguments Deno is started with: no look at the caller's folder, no network for modules. */
export const RUNTIME_ARGS = [
  "run",
  "-A",
  "--quiet",
  "--no-config",
  "--no-lock",
  "--no-remote",
  "--no-npm",
  "--cached-only",
  // of deno.json, which is not there to be read
  "--unstable-no-legacy-abort",
];

/**
 * Candidates for the cache folder, in order; each must belong to the caller, or another user could plant
 * code in it. `HOME` of another user (sudo) is passed over for the same reason.
 */
const header = (fields: {
  app: string;
  runtime: string;
  appAt: number;
  appSize: number;
  runtimeAt: string;
  args: string;
}) =>
  `#!/bin/sh
# svc: a self-contained executable. What follows this script is packed code, unpacked once per user.
export DENO_NO_UPDATE_CHECK=1 DENO_TLS_CA_STORE="\${DENO_TLS_CA_STORE:-system,mozilla}"
export SVC_LAUNCHER_PATH="$0" SVC_LAUNCHER_DENO_DIR="$DENO_DIR"
start() {
  [ -O "$1/${fields.app}/ready" ] && [ -O "$1/${fields.runtime}/ready" ] && [ -O "$1" ] || return 0
  case $(LC_ALL=C ls -ldn "$1") in drwx------*) ;; *) return 0 ;; esac
  export DENO_DIR="$1/${fields.app}/cache"
  root=$1
  shift
  exec "$root/${fields.runtime}/deno" ${fields.args} "$root/${fields.app}/${ENTRY}" "$@"
}
[ -n "$XDG_CACHE_HOME" ] && start "$XDG_CACHE_HOME/svc/bin" "$@"
[ -n "$HOME" ] && start "$HOME/.cache/svc/bin" "$@"
temporary=\${TMPDIR:-/tmp}/svc-bin-$(id -u)
start "$temporary" "$@"

place() {
  [ -O "$1/$2/ready" ] && return 0
  fresh=$(mktemp -d "$1/.new.XXXXXX") || return 1
  trap 'rm -rf "$fresh"' EXIT
  trap 'exit 1' HUP INT TERM
  (cd "$fresh" && "$3") || return 1
  mkdir -p "$1/$2" && mv -f "$fresh"/* "$1/$2/" && : >"$1/$2/ready"
  placed=$?
  rm -rf "$fresh"
  trap - EXIT HUP INT TERM
  return $placed
}
app() {
  tail -c +${fields.appAt} "$self" | head -c ${fields.appSize} | gzip -dc >app.tar || return 1
  tar -xf app.tar && rm app.tar
}
runtime() {
  tail -c +${fields.runtimeAt} "$self" | gzip -dc >deno || return 1
  chmod 700 deno && ./deno --version >/dev/null
}
unpack() (
  umask 077
  # What stands in a folder that others could write to is not trusted.
  if [ -O "$1" ]; then
    case $(LC_ALL=C ls -ldn "$1") in drwx------*) ;; *) rm -rf "$1" ;; esac
  fi
  mkdir -p "$1" && [ -O "$1" ] && [ -w "$1" ] &&
    place "$1" ${fields.app} app && place "$1" ${fields.runtime} runtime
) 2>/dev/null
case $0 in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
if [ -n "$XDG_CACHE_HOME" ] && unpack "$XDG_CACHE_HOME/svc/bin"; then
  start "$XDG_CACHE_HOME/svc/bin" "$@"
fi
if [ -n "$HOME" ] && [ -O "$HOME" ] && unpack "$HOME/.cache/svc/bin"; then
  start "$HOME/.cache/svc/bin" "$@"
fi
unpack "$temporary" && start "$temporary" "$@"
echo "Cannot unpack svc: no folder of your own is writable and allows programs (tried \\$XDG_CACHE_HOME, \\$HOME/.cache and $temporary); set XDG_CACHE_HOME" >&2
exit 125
`;

const quote = (word: string) => /^[\w./=,:@-]+$/.test(word) ? word : `'${word}'`;

const shortHash = (bytes: Uint8Array) =>
  createHash("sha256").update(bytes).digest("hex").slice(0, 20);

/** Compresses the runtime's binary; the result is kept beside `dist/svc` for the next build. */
export async function packRuntime(
  binary: string,
  cacheDir: string,
): Promise<LauncherOptions["runtime"]> {
  const bytes = await Deno.readFile(binary);
  const hash = shortHash(bytes);
  const kept = join(cacheDir, `runtime-${hash}.gz`);
  try {
    return { gzip: await Deno.readFile(kept), hash };
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  const gzip = new Uint8Array(gzipSync(bytes, { level: 6 }));
  await Deno.mkdir(cacheDir, { recursive: true });
  const temporary = await Deno.makeTempFile({ dir: cacheDir });
  await Deno.writeFile(temporary, gzip);
  await Deno.rename(temporary, kept);
  return { gzip, hash };
}

/** Writes the executable; replaces an old one whole, also while it runs. */
export async function writeLauncher(options: LauncherOptions): Promise<void> {
  const names = [...Deno.readDirSync(options.bundleDir)].map((entry) => entry.name).sort();
  const archive = tar(names.map((name) => ({
    path: name,
    data: Deno.readFileSync(join(options.bundleDir, name)),
    mode: 0o600,
  })));
  const app = gzipSync(archive, { level: 9 });
  // Where the parts begin depends on the header's length, which depends on the digits of where they begin.
  let text = "";
  for (let appAt = 0, last = -1; appAt !== last;) {
    last = appAt;
    text = header({
      app: `app-${shortHash(archive)}`,
      runtime: `runtime-${options.runtime.hash}`,
      appAt,
      appSize: app.length,
      runtimeAt: String(appAt + app.length),
      args: options.runtimeArgs.map(quote).join(" "),
    });
    appAt = new TextEncoder().encode(text).length + 1; // tail counts from 1
  }
  const temporary = `${options.output}.new-${Deno.pid}`;
  const file = await Deno.open(temporary, { write: true, create: true, truncate: true });
  try {
    for (const part of [new TextEncoder().encode(text), app, options.runtime.gzip]) {
      for (let at = 0; at < part.length;) at += await file.write(part.subarray(at));
    }
  } finally {
    file.close();
  }
  await Deno.chmod(temporary, 0o755);
  await Deno.rename(temporary, options.output);
}
