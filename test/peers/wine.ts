/** Deno's real Windows build under wine, in the root that wine_root.sh makes. */
import { join } from "node:path";

/** Where the root is; undefined: it was not made. */
export function wineRoot(): string | undefined {
  const cache = Deno.env.get("XDG_CACHE_HOME") ?? join(Deno.env.get("HOME") ?? "/root", ".cache");
  const root = Deno.env.get("SVC_TEST_WINE_ROOT") ?? join(cache, "svc-peers/wine");
  try {
    Deno.statSync(join(root, "w/ready"));
    return root;
  } catch {
    return undefined; // not made, or not by this user
  }
}

export interface WindowsDeno {
  /** Program and arguments that run `deno.exe ARGS` in `share`, which is the folder `Z:\host` there. */
  command(args: string[], env?: Record<string, string>): Deno.Command;
}

/** Mounts are of each call's own, and go with it. */
export function windowsDeno(root: string, share: string): WindowsDeno {
  const script = `mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount --bind "$1" "$0/host"
root=$0; shift
exec chroot "$root" "$@"`;
  return {
    command: (args, env = {}) =>
      new Deno.Command("unshare", {
        args: [
          ...["-m", "--propagation", "private", "sh", "-euc", script, root, share],
          ...["env", "-i", "HOME=/root", "PATH=/usr/bin:/bin:/usr/lib/wine"],
          ...["WINEPREFIX=/w/prefix", "WINEDEBUG=-all", "NO_COLOR=1"],
          ...["DENO_NO_UPDATE_CHECK=1", "DENO_DIR=Z:\\w\\deno"],
          ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
          ...["sh", "-c", 'cd /host && exec wine64 "$@"', "sh", "/w/deno.exe", ...args],
        ],
        stdin: "null",
        stdout: "piped",
        stderr: "piped",
      }),
  };
}
