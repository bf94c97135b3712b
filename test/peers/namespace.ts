/**
 * Engines in namespaces of their own: their bridges, rules and mounts stay off the host, and all their
 * processes end with the namespace. A test that wants to reach what is in there enters its network.
 */
import { closeSync, existsSync, openSync } from "node:fs";
import { join } from "node:path";

const CLONE_NEWNET = 0x40000000;
const READY_MS = 60_000;

export interface NamespaceOptions {
  /** Programs of Debian's unstable suite lie over the host's: of `unstable.sh`, or those in this folder. */
  unstable?: boolean | string;
  /** The host's network instead of one of its own. */
  hostNetwork?: boolean;
  /** Shell commands that run inside before it is ready, with `folder` as `$1`. */
  setup?: string;
}

export interface RunInside {
  env?: Record<string, string>;
  /** Where the output goes; default: nowhere. */
  log?: string;
}

/** One program that runs inside. */
export interface Inside {
  /** Resolves when it has ended. */
  readonly ended: Promise<void>;
  hasEnded(): boolean;
  /** To the program itself, and before that to its child, if that is wished; no error where it has ended. */
  signal(name: Deno.Signal, to?: "child"): Promise<void>;
}

export interface Namespace extends AsyncDisposable {
  /** Program and arguments that run something inside and wait for it. */
  inside(...command: string[]): string[];
  /** Starts a program that stays. */
  start(command: string[], options?: RunInside): Inside;
  /**
   * Until it is disposed of, the sockets that this thread opens and the processes that it starts are in the
   * namespace's network. Not for code that awaits while other tests run.
   */
  enter(): Disposable;
}

const CACHE = Deno.env.get("XDG_CACHE_HOME") ?? join(Deno.env.get("HOME") ?? "/root", ".cache");
/** A folder of programs of Debian's unstable suite. */
export const programsIn = (name: string) => join(CACHE, "svc-peers", name);
/** The folder with those of `unstable.sh`. */
export const UNSTABLE = programsIn("unstable-1");

/** For `requireTools({ files })`: there once `unstable.sh` has run, which takes half a minute. */
export const UNSTABLE_READY = join(UNSTABLE, "ready");

const libc = () =>
  Deno.dlopen("libc.so.6", { setns: { parameters: ["i32", "i32"], result: "i32" } });

function joinNetwork(fd: number): void {
  const library = libc();
  const failed = library.symbols.setns(fd, CLONE_NEWNET) !== 0;
  library.close();
  if (failed) throw new Error("Cannot enter a network namespace");
}

/** The child of `unshare` or `nsenter`; undefined: not there yet, or it has ended. */
async function childOf(pid: number): Promise<number | undefined> {
  try {
    for await (const { name } of Deno.readDir(`/proc/${pid}/task`)) {
      const children = await Deno.readTextFile(`/proc/${pid}/task/${name}/children`);
      if (children) return Number(children.trim().split(" ")[0]);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error; // it has ended
  }
}

function kill(pid: number | undefined, signal: Deno.Signal): void {
  try {
    if (pid) Deno.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Its first process reaps what others leave. */
const HOLD = `exec tini-static -- sh -c "echo ready; exec sleep infinity"`;

/** `folder` has to be visible under its own name, so not below /run. */
export async function startNamespace(
  folder: string,
  { unstable, hostNetwork, setup = "" }: NamespaceOptions = {},
): Promise<Namespace> {
  const programs = unstable === true ? UNSTABLE : unstable;
  if (programs && !existsSync(join(programs, "ready"))) {
    throw new Error(`Cannot start the peer: ${programs} is not there; see test/peers/*.sh`);
  }
  const script = [
    // Its own mounts reach its containers, as on a host.
    "mount --make-rshared /",
    "mount -t proc proc /proc",
    "mount -t tmpfs -o mode=755 tmpfs /run",
    programs ? `mount -t overlay overlay -o lowerdir=${programs}/usr:/usr /usr` : "",
    hostNetwork ? "" : "ip link set lo up",
    setup,
    HOLD,
  ].join("\n");
  const holder = new Deno.Command("unshare", {
    args: [
      ...["--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child"],
      ...(hostNetwork ? [] : ["--net"]),
      ...["sh", "-euc", script, "sh", folder],
    ],
    env: { PATH: `${Deno.env.get("PATH")}:/usr/sbin:/sbin` },
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = holder.stdout.getReader();
  const timer = setTimeout(() => kill(holder.pid, "SIGKILL"), READY_MS);
  const { done } = await reader.read();
  clearTimeout(timer);
  const first = await childOf(holder.pid);
  const end = async () => {
    // With the first process all others go; `unshare` waits until they have gone.
    kill(first ?? holder.pid, "SIGKILL");
    await reader.cancel();
    await holder.status;
  };
  if (done || !first) {
    await end();
    throw new Error("Cannot make the namespaces of a peer");
  }
  const inside = (...command: string[]) => [
    ...["nsenter", "-t", String(first), "-m", "-p", ...(hostNetwork ? [] : ["-n"])],
    ...["--", ...command],
  ];
  return {
    inside,
    start: (command, options = {}) => startInside(inside(...command), options),
    enter: () => {
      if (hostNetwork) return { [Symbol.dispose]: () => {} };
      const [own, other] = ["self", String(first)].map((pid) =>
        openSync(`/proc/${pid}/ns/net`, "r")
      );
      joinNetwork(other);
      closeSync(other);
      return {
        [Symbol.dispose]: () => {
          joinNetwork(own);
          closeSync(own);
        },
      };
    },
    [Symbol.asyncDispose]: end,
  };
}

function startInside([program, ...args]: string[], { env, log = "/dev/null" }: RunInside): Inside {
  const child = new Deno.Command("sh", {
    args: ["-c", 'log=$0; exec "$@" >>"$log" 2>&1', log, program, ...args],
    env: { PATH: `${Deno.env.get("PATH")}:/usr/sbin:/sbin`, ...env },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  let over = false;
  const ended = child.status.then(() => {
    over = true;
  });
  return {
    ended,
    hasEnded: () => over,
    async signal(name, to) {
      // `nsenter` waits for the program, which it may not have started yet.
      for (;;) {
        const pid = await childOf(child.pid);
        if (!pid && !over) {
          await pause(5);
          continue;
        }
        // The child may be a helper of the program's, which itself is the one to end then.
        if (to && pid) kill(await childOf(pid), name);
        return kill(pid, name);
      }
    },
  };
}
