/**
 * Logins stored by docker, podman and skopeo: `config.json` with `auths`, `credHelpers` and `credsStore`. The
 * caller names the file.
 */
import { ifThere } from "../base/fs.ts";
import { SvcError } from "../base/errors.ts";
import { join } from "../base/path.ts";
import { run } from "../base/process.ts";
import type { Credentials } from "./auth.ts";

interface ConfigFile {
  auths?: Record<string, {
    auth?: string;
    username?: string;
    password?: string;
    identitytoken?: string;
    registrytoken?: string;
  }>;
  credHelpers?: Record<string, string>;
  credsStore?: string;
}

/** Login files of docker, podman and skopeo, in the order in which they are read. */
export function loginFiles(env: Readonly<Record<string, string | undefined>>): string[] {
  const home = env.HOME ?? env.USERPROFILE;
  return [
    ...(env.REGISTRY_AUTH_FILE ? [env.REGISTRY_AUTH_FILE] : []),
    ...(env.XDG_RUNTIME_DIR ? [join(env.XDG_RUNTIME_DIR, "containers", "auth.json")] : []),
    ...(env.DOCKER_CONFIG
      ? [join(env.DOCKER_CONFIG, "config.json")]
      : home
      ? [join(home, ".docker", "config.json")]
      : []),
  ];
}

/** The keys under which a host's login may be stored. docker.io has the key of docker's first protocol. */
function keysOf(host: string): string[] {
  const names = host === "docker.io"
    ? ["https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io"]
    : [host];
  return names.flatMap((name) => [
    name,
    ...(name.includes("://") ? [] : [`https://${name}`, `http://${name}`, `https://${name}/v2/`]),
  ]);
}

async function readConfig(path: string): Promise<ConfigFile | undefined> {
  const text = await ifThere(Deno.readTextFile(path));
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as ConfigFile;
  } catch (cause) {
    // The parser's message is left out: it quotes the text, which holds passwords.
    throw new SvcError("config_invalid", `Cannot read logins from ${path}: it is not JSON`, {
      cause: new Error("malformed JSON", { cause: (cause as Error).name }),
      help: "correct the file, or log in again",
    });
  }
}

/** Asks `docker-credential-NAME get`; undefined where it has no login for the key. */
async function askHelper(
  helper: string,
  keys: string[],
  signal?: AbortSignal,
): Promise<Credentials | undefined> {
  if (!/^[\w.-]+$/.test(helper)) {
    throw new SvcError(
      "config_invalid",
      `Cannot use credential helper ${JSON.stringify(helper)}: bad name`,
    );
  }
  for (const key of keys) {
    const answer = await run(`docker-credential-${helper}`, ["get"], { stdin: key, signal });
    if (answer.code !== 0) {
      // A helper reports a missing login with this text on standard output.
      if (/credentials not found/i.test(answer.stdout + answer.stderr)) continue;
      throw new SvcError(
        "prerequisite_missing",
        `Cannot get a login for ${keys[0]}: docker-credential-${helper} exited with ${answer.code}`,
        { help: `run docker-credential-${helper} by hand, or log in again` },
      );
    }
    const { Username, Secret } = JSON.parse(answer.stdout) as {
      Username?: string;
      Secret?: string;
    };
    if (!Secret) continue;
    if (Username === "<token>") return { identityToken: Secret };
    return { username: Username ?? "", password: Secret };
  }
  return undefined;
}

function decodeAuth(auth: string): { username: string; password: string } | undefined {
  let text: string;
  try {
    text = new TextDecoder().decode(Uint8Array.from(atob(auth), (c) => c.charCodeAt(0)));
  } catch {
    return undefined; // not base64: no login
  }
  const colon = text.indexOf(":");
  if (colon <= 0) return undefined;
  return { username: text.slice(0, colon), password: text.slice(colon + 1).replace(/\0+$/, "") };
}

/**
 * The login for `host` ("host[:port]") in a docker config file; undefined where there is no login or no file.
 * As in docker, the host's own helper comes first, then the file's entry, then the default store. Throws
 * `config_invalid` or `prerequisite_missing` (a helper that is not installed or fails).
 */
export async function readDockerCredentials(
  configPath: string,
  host: string,
  options: { signal?: AbortSignal } = {},
): Promise<Credentials | undefined> {
  const config = await readConfig(configPath);
  if (!config) return undefined;
  const keys = keysOf(host);
  const helper = keys.map((key) => config.credHelpers?.[key]).find((name) => name);
  if (helper) return await askHelper(helper, keys, options.signal);
  for (const key of keys) {
    const entry = config.auths?.[key];
    if (!entry) continue;
    if (entry.registrytoken) return { token: entry.registrytoken };
    if (entry.identitytoken) return { identityToken: entry.identitytoken };
    if (entry.username && entry.password) {
      return { username: entry.username, password: entry.password };
    }
    const decoded = entry.auth ? decodeAuth(entry.auth) : undefined;
    if (decoded) return decoded;
  }
  return config.credsStore ? await askHelper(config.credsStore, keys, options.signal) : undefined;
}
