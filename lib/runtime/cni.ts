/**
 * Runs CNI plugins (Container Network Interface specification 1.0, "Section 2: Execution Protocol"):
 * variables and configuration in, a result or an error document out.
 */
import { join } from "node:path";
import { SvcError, tellsFullDisk } from "../base/errors.ts";
import { run } from "../base/process.ts";

/** Where distributions and the CNI project put the plugins. */
const STANDARD_DIRS = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"];

const VERSIONS = ["1.0.0", "0.4.0"];

/** Error code of the specification: the plugin does not know this version of the configuration. */
const INCOMPATIBLE_VERSION = 1;

export interface CniInterface {
  name: string;
  mac?: string;
  /** Empty or absent for an interface on the host. */
  sandbox?: string;
}

export interface CniResult {
  cniVersion?: string;
  interfaces?: CniInterface[];
  ips?: { address: string; gateway?: string; interface?: number }[];
  routes?: { dst: string; gw?: string }[];
  dns?: Record<string, unknown>;
}

/** One plugin's configuration: `type` names the executable. */
export type CniConfig = { type: string; name: string } & Record<string, unknown>;

export interface CniCall {
  containerId: string;
  /** Path of the network namespace; may be absent for DEL only. */
  netns?: string;
  ifname: string;
  config: CniConfig;
  prevResult?: CniResult;
  signal?: AbortSignal;
}

interface CniErrorJson {
  code?: number;
  msg?: string;
  details?: string;
}

/**
 * Folders in which plugins are looked up: SVC_CNI_BIN_DIR or CNI_PATH, colon-separated. At the default, the
 * folders of distributions are searched too.
 */
export function cniDirs(binDir: string = STANDARD_DIRS[0]): string[] {
  const dirs = binDir.split(":").filter(Boolean);
  return dirs.length === 1 && dirs[0] === STANDARD_DIRS[0] ? STANDARD_DIRS : dirs;
}

export class CniPlugins {
  readonly dirs: readonly string[];
  #found = new Map<string, string>();
  #version = VERSIONS[0];

  constructor(dirs: readonly string[]) {
    this.dirs = dirs;
  }

  /** The plugin's path. Throws `prerequisite_missing` naming the package. */
  async find(type: string): Promise<string> {
    const known = this.#found.get(type);
    if (known) return known;
    for (const dir of this.dirs) {
      const path = join(dir, type);
      const info = await Deno.stat(path).catch(() => undefined);
      if (info?.isFile && (info.mode ?? 0) & 0o111) {
        this.#found.set(type, path);
        return path;
      }
    }
    throw new SvcError(
      "prerequisite_missing",
      `Cannot set up networking: CNI plugin ${type} is not in ${this.dirs.join(", ")}`,
      {
        help:
          "install containernetworking-plugins (apt-get install containernetworking-plugins), or set SVC_CNI_BIN_DIR",
      },
    );
  }

  /** Makes an attachment and returns its result. Not idempotent: the caller deletes first. */
  async add(call: CniCall): Promise<CniResult> {
    return await this.#exec("ADD", call) ?? {};
  }

  /** Removes an attachment. Idempotent, also where it is partly or wholly gone. */
  async del(call: CniCall): Promise<void> {
    await this.#exec("DEL", call);
  }

  async #exec(command: "ADD" | "DEL", call: CniCall): Promise<CniResult | undefined> {
    const path = await this.find(call.config.type);
    for (;;) {
      const version = this.#version;
      const { prevResult } = call;
      const stdin = JSON.stringify({
        cniVersion: version,
        ...call.config,
        ...(prevResult && { prevResult: { ...prevResult, cniVersion: version } }),
      });
      const result = await run(path, [], {
        env: {
          CNI_COMMAND: command,
          CNI_CONTAINERID: call.containerId,
          CNI_NETNS: call.netns ?? "",
          CNI_IFNAME: call.ifname,
          CNI_PATH: this.dirs.join(":"),
        },
        stdin,
        signal: call.signal,
      });
      if (result.code === 0) {
        return result.stdout.trim() === "" ? undefined : JSON.parse(result.stdout) as CniResult;
      }
      const error = parseError(result.stdout);
      const next = VERSIONS[VERSIONS.indexOf(version) + 1];
      if (error?.code === INCOMPATIBLE_VERSION && next) {
        this.#version = next;
        continue;
      }
      const words = [error?.msg, error?.details].filter(Boolean).join(": ") ||
        result.stderr.trim() || result.stdout.trim() || `exit code ${result.code}`;
      const message =
        `Cannot set up networking: CNI plugin ${call.config.type} failed on ${command}: ${words}`;
      if (tellsFullDisk(words)) {
        throw new SvcError("storage_full", message, { help: "free space on this host's /run" });
      }
      throw new SvcError("internal", message, {
        help: "see the plugin's message; is iptables installed and allowed?",
      });
    }
  }
}

function parseError(text: string): CniErrorJson | undefined {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" ? value as CniErrorJson : undefined;
  } catch {
    return undefined;
  }
}
