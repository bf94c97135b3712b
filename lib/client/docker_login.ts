/** Logins in the files of docker and podman, in the form that these tools write. */
import { dirname, join } from "node:path";
import { SvcError } from "../base/errors.ts";
import { ensureDir, ifThere, writeFileAtomic } from "../base/fs.ts";
import { run } from "../base/process.ts";
import { homeFolder } from "./profile/location.ts";

type Environment = Readonly<Record<string, string | undefined>>;

interface AuthFile {
  auths?: Record<string, { auth?: string }>;
  credHelpers?: Record<string, string>;
  credsStore?: string;
}

/** Docker's file, then podman's (which skopeo and buildah share). */
function authFiles(env: Environment): string[] {
  const { os } = Deno.build;
  const home = homeFolder({ os, env });
  const docker = env.DOCKER_CONFIG ?? (home && join(home, ".docker"));
  const runtime = env.XDG_RUNTIME_DIR && join(env.XDG_RUNTIME_DIR, "containers", "auth.json");
  const system = os === "linux" ? `/run/containers/${Deno.uid()}/auth.json` : undefined;
  const podman = env.REGISTRY_AUTH_FILE ?? runtime ??
    (os === "linux" ? system : home && join(home, ".config", "containers", "auth.json"));
  return [...(docker ? [join(docker, "config.json")] : []), ...(podman ? [podman] : [])];
}

async function read(path: string): Promise<AuthFile> {
  const text = await ifThere(Deno.readTextFile(path));
  if (text === undefined) return {};
  try {
    return text.trim() === "" ? {} : JSON.parse(text) as AuthFile;
  } catch {
    // The parser's message quotes the text, which holds passwords: it is not shown.
    throw new SvcError("config_invalid", `Cannot change the logins in ${path}: it is not JSON`, {
      help: "correct the file",
    });
  }
}

async function change(path: string, act: (file: AuthFile) => void): Promise<void> {
  const file = await read(path);
  act(file);
  await ensureDir(dirname(path), 0o700);
  const target = await Deno.realPath(path).catch(() => path);
  await writeFileAtomic(target, JSON.stringify(file, null, "\t") + "\n", { mode: 0o600 });
}

async function helper(name: string, verb: "store" | "erase", stdin: string): Promise<void> {
  if (!/^[\w.-]+$/.test(name)) {
    throw new SvcError(
      "config_invalid",
      `Cannot use credential helper ${JSON.stringify(name)}: bad name`,
    );
  }
  const { code } = await run(`docker-credential-${name}`, [verb], { stdin });
  if (code === 0 || verb === "erase") return;
  throw new SvcError(
    "prerequisite_missing",
    `Cannot keep the login: docker-credential-${name} exited with ${code}`,
    {
      help: `run docker-credential-${name} by hand, or take it out of docker's config.json`,
    },
  );
}

export interface Login {
  /** "host[:port]" */
  host: string;
  username: string;
  password: string;
}

/** Writes the login to the files that docker and podman read; returns their paths. */
export async function storeLogin(login: Login, env: Environment): Promise<string[]> {
  const { host, username, password } = login;
  const files = authFiles(env);
  const places: string[] = [];
  for (const path of files) {
    const { credHelpers, credsStore } = await read(path);
    const by = credHelpers?.[host] ?? credsStore;
    if (by) {
      await helper(
        by,
        "store",
        JSON.stringify({ ServerURL: host, Username: username, Secret: password }),
      );
      places.push(`docker-credential-${by}`);
      continue;
    }
    const auth = btoa(String.fromCharCode(...new TextEncoder().encode(`${username}:${password}`)));
    await change(path, (file) => {
      file.auths = { ...file.auths, [host]: { auth } };
    });
    places.push(path);
  }
  return places;
}

/** Removes the login; returns the paths of the files that had it. */
export async function removeLogin(host: string, env: Environment): Promise<string[]> {
  const places: string[] = [];
  for (const path of authFiles(env)) {
    const { auths, credHelpers, credsStore } = await read(path);
    const by = credHelpers?.[host] ?? credsStore;
    if (by) await helper(by, "erase", host);
    if (!auths || !Object.hasOwn(auths, host)) continue;
    await change(path, (file) => {
      delete file.auths![host];
    });
    places.push(path);
  }
  return places;
}
