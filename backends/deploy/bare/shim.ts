/**
 * SVC_BARE_SHIM: what restarts a container that ends while no server runs. The container's monitor runs a
 * command at its end, a small shell. While a server runs, that shell waits: restarts are the server's. Where
 * none runs, it starts this program for as long as a restart takes, and sleeps until the next one is due. One at
 * a time, so that hundreds of ends at once cost no more memory than one.
 */
import { join } from "node:path";
import { ensureDir, exists, readJson, removeTree, writeFileAtomic } from "../../../lib/base/fs.ts";
import type { BareConfig } from "./config.ts";
import { MONITOR_PID } from "./conmon.ts";

/** Held by a server for as long as it runs. */
const SERVING = "serving";
/** Held while a container is restarted; the server waits for it once. */
const TURN = "turn";
const SETTINGS = "settings.json";
/** Seconds after which a waiting shell looks whether it still has to wait. */
const WAIT = 20;

/** What a restart needs of the server that is gone. */
export interface ShimSettings {
  dataDir: string;
  runDir: string;
  config: BareConfig;
}

/**
 * The command says in how many seconds it wants to be asked again; nothing: it is over. The server takes the
 * lock `serving` and then waits for `turn`: so whoever finds `serving` free while it has `turn` is before the
 * server. A shell ends where the container has a later monitor, whose shell it is then that restarts.
 */
const SCRIPT = `serving=$0 turn=$1 bundle=$2; shift 2
ask='flock --shared --nonblock "$0" true || exec echo 0; exec "$@"'
mine() {
  [ -d "$bundle" ] && [ -e "$serving" ] || return 1
  now=$(cat "$bundle/${MONITOR_PID}" 2>/dev/null) || return 0
  [ "$now" = $PPID ]
}
while mine; do
  flock --shared --timeout ${WAIT} "$serving" true || continue
  wait=$(flock --close "$turn" sh -c "$ask" "$serving" "$@") && [ "$wait" ] || break
  sleep "$wait"
done`;

/** The monitor's command at the container's end; `command` leads to keep.ts. */
export function exitCommand(
  folder: string,
  { bundle, command, key }: { bundle: string; command: readonly string[]; key: string },
): string[] {
  const locks = [SERVING, TURN].map((name) => join(folder, name));
  return ["/bin/sh", "-c", SCRIPT, ...locks, bundle, ...command, folder, key];
}

async function locked(path: string): Promise<Disposable> {
  const file = await Deno.open(path, { write: true, create: true, mode: 0o600 });
  try {
    await file.lock(true);
  } catch (error) {
    file.close();
    throw error;
  }
  return { [Symbol.dispose]: () => file.close() };
}

/**
 * Restarts are this server's until the result is disposed of. A restart that is under way is finished before.
 * `settings`: what later restarts need; absent: there will be none.
 */
export async function takeOver(
  folder: string,
  settings: ShimSettings | undefined,
): Promise<Disposable | undefined> {
  if (!settings && !await exists(folder)) return undefined;
  await ensureDir(folder, 0o700);
  const serving = await locked(join(folder, SERVING));
  try {
    using _turn = await locked(join(folder, TURN));
    const path = join(folder, SETTINGS);
    if (settings) await writeFileAtomic(path, JSON.stringify(settings), { mode: 0o600 });
    else await removeTree(path);
    return serving;
  } catch (error) {
    serving[Symbol.dispose]();
    throw error;
  }
}

/** Undefined where the last server had no shims. */
export const shimSettings = (folder: string): Promise<ShimSettings | undefined> =>
  readJson<ShimSettings>(join(folder, SETTINGS));
