/**
 * The system's keyring by its own tool: `secret-tool` for the freedesktop Secret Service, `security` on macOS.
 * A native library would need a file beside the executable. Secrets are passed on standard input, never as
 * arguments.
 */
import { SvcError } from "../../base/errors.ts";
import { run, type RunResult } from "../../base/process.ts";

export interface Keyring {
  get(key: string): Promise<string | undefined>;
  set(key: string, secret: string): Promise<void>;
  delete(key: string): Promise<void>;
  clear(): Promise<number>;
}

type Environment = Readonly<Record<string, string | undefined>>;

const SERVICE = "svc";
/** A limit in milliseconds: a locked keyring may ask in a window that nobody sees. */
const PATIENCE_MS = 10_000;

async function call(
  env: Environment,
  tool: string,
  args: string[],
  stdin?: string,
): Promise<RunResult> {
  return await run(tool, args, {
    env: Object.fromEntries(
      Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined),
    ),
    ...(stdin !== undefined && { stdin }),
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
}

function refused(tool: string): SvcError {
  return new SvcError("unavailable", `Cannot use the keyring: ${tool} refused`, {
    help: "unlock the keyring, or set SVC_TOKEN_CACHE=file",
  });
}

function secretService(env: Environment): Keyring {
  const tool = "secret-tool";
  const of = (key: string) => ["service", SERVICE, "key", key];
  return {
    async get(key) {
      const { code, stdout } = await call(env, tool, ["lookup", ...of(key)]);
      return code === 0 && stdout !== "" ? stdout : undefined;
    },
    async set(key, secret) {
      const { code } = await call(
        env,
        tool,
        ["store", "--label", "svc session", ...of(key)],
        secret,
      );
      if (code !== 0) throw refused(tool);
    },
    async delete(key) {
      await call(env, tool, ["clear", ...of(key)]);
    },
    async clear() {
      const found = await call(env, tool, ["search", "--all", "service", SERVICE]);
      const count = (found.stdout + found.stderr).match(/^attribute\.key = /gm)?.length ?? 0;
      await call(env, tool, ["clear", "service", SERVICE]);
      return count;
    },
  };
}

/** Words of `security -i`, which reads its commands from standard input. */
const quoted = (word: string) => `"${word.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;

function macKeychain(env: Environment): Keyring {
  const tool = "security";
  const commands = (...lines: string[][]) =>
    call(env, tool, ["-i"], lines.map((words) => words.map(quoted).join(" ") + "\n").join(""));
  return {
    async get(key) {
      const { code, stdout } = await call(env, tool, [
        "find-generic-password",
        "-s",
        SERVICE,
        "-a",
        key,
        "-w",
      ]);
      return code === 0 ? stdout.trim() : undefined;
    },
    async set(key, secret) {
      const { code } = await commands([
        "add-generic-password",
        "-U",
        "-s",
        SERVICE,
        "-a",
        key,
        "-w",
        secret,
      ]);
      if (code !== 0) throw refused(tool);
    },
    async delete(key) {
      await call(env, tool, ["delete-generic-password", "-s", SERVICE, "-a", key]);
    },
    async clear() {
      let count = 0;
      while ((await call(env, tool, ["delete-generic-password", "-s", SERVICE])).code === 0) {
        count++;
      }
      return count;
    },
  };
}

async function onPath(tool: string, env: Environment): Promise<boolean> {
  for (const folder of (env.PATH ?? "").split(":").filter((part) => part !== "")) {
    if (await Deno.stat(`${folder}/${tool}`).then((info) => info.isFile, () => false)) return true;
  }
  return false;
}

/** The keyring of this session; undefined where there is none. */
export async function findKeyring(
  env: Environment,
  os: typeof Deno.build.os = Deno.build.os,
): Promise<Keyring | undefined> {
  if (os === "darwin") return await onPath("security", env) ? macKeychain(env) : undefined;
  if (os === "windows" || !env.DBUS_SESSION_BUS_ADDRESS) return undefined;
  return await onPath("secret-tool", env) ? secretService(env) : undefined;
}
