/** What a shim runs: restarts one container where a restart is due. */
import { SvcError } from "../../../lib/base/errors.ts";
import { silent } from "../../../lib/base/log.ts";
import { keepInstance } from "../../../lib/deploy/host/keep.ts";
import { hostPaths } from "../../../lib/deploy/host/paths.ts";
import { makeEngine } from "./make.ts";
import { shimSettings } from "./shim.ts";

/**
 * `folder`: of the shims' files; `key`: the container's. Returns the seconds until it is to be asked again, as
 * text; empty: never.
 */
export async function keep([folder, key]: readonly string[]): Promise<string> {
  const settings = await shimSettings(folder);
  // A server without shims has run since.
  if (!settings) return "";
  const { dataDir, runDir, config } = settings;
  const paths = hostPaths("bare", dataDir, runDir);
  const refuse = () =>
    Promise.reject(
      new SvcError("conflict", `Cannot start ${key} again: its root is not mounted`, {
        help: "start the server",
      }),
    );
  const engine = makeEngine({
    ...{ paths, config, dataDir, runDir },
    ...{ snapshotter: refuse, unpack: refuse },
  });
  const ms = await keepInstance({ engine, paths, config, log: silent, key });
  return ms === undefined ? "" : (ms / 1000).toFixed(3);
}
