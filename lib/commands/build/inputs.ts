/** The inputs of `--secret`, `--ssh` and `--build-context`: read only when a step needs them. */
import { isAbsolute } from "../../base/path.ts";
import { parseFields } from "../../base/csv_fields.ts";
import { SvcError, systemCode } from "../../base/errors.ts";
import type { ConnectAgent } from "../../client/build_session.ts";
import type { Prompt } from "../../client/prompt.ts";
import { inputError } from "../input.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const ID = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/;

function refused(flag: string, text: string, why: string, help?: string): SvcError {
  return new SvcError("argument_invalid", `Cannot read ${flag} ${JSON.stringify(text)}: ${why}`, {
    help,
  });
}

/** Throws `argument_invalid` for a secret that does not exist, before anything is built. */
function secretOf(text: string, env: Environment): [string, () => Promise<Uint8Array>] {
  const fields = new Map<string, string | undefined>();
  for (const [key, value] of parseFields(text, "--secret")) {
    if (!["id", "src", "source", "env", "type"].includes(key)) {
      throw refused(
        "--secret",
        text,
        `${key} is unknown`,
        "write id=NAME,src=FILE or id=NAME,env=VARIABLE",
      );
    }
    fields.set(key === "source" ? "src" : key, value);
  }
  const id = fields.get("id");
  if (!id || !ID.test(id)) {
    throw refused("--secret", text, "it has no id", "write id=NAME,src=FILE");
  }
  const type = fields.get("type") ?? (fields.has("env") ? "env" : fields.has("src") ? "file" : "");
  if (!["", "env", "file"].includes(type)) {
    throw refused("--secret", text, `type ${type} is unknown`, "write type=file or type=env");
  }
  const source = fields.get("env") ?? fields.get("src") ?? id;
  // Without a source: the variable with the secret's id, else the file.
  const fromEnv = type === "env" || type === "" && env[id] !== undefined;
  if (fromEnv) {
    const value = env[source];
    if (value === undefined) {
      throw refused(
        "--secret",
        text,
        `the variable ${source} is not set`,
        "set it, or name a file with src=",
      );
    }
    return [id, () => Promise.resolve(new TextEncoder().encode(value))];
  }
  try {
    if (Deno.statSync(source).isDirectory) {
      throw refused("--secret", text, `${source} is a directory`);
    }
  } catch (error) {
    throw error instanceof SvcError ? error : inputError(source, `secret ${id}`, error);
  }
  return [id, () =>
    Deno.readFile(source).catch((error) => {
      throw inputError(source, `secret ${id}`, error);
    })];
}

export function secretsOf(
  texts: readonly string[] | undefined,
  env: Environment,
): Map<string, () => Promise<Uint8Array>> {
  return new Map(texts?.map((text) => secretOf(text, env)));
}

/**
 * `default`, `ID`, `ID=SOCKET` or `ID=KEY[,KEY]`. Throws `argument_invalid` where there is no agent, and what
 * `loadKey` throws.
 */
async function agentOf(
  text: string,
  env: Environment,
  prompt: Prompt,
): Promise<[string, ConnectAgent]> {
  const equals = text.indexOf("=");
  const id = equals < 0 ? text : text.slice(0, equals);
  if (!ID.test(id)) {
    throw refused("--ssh", text, "it has no id", "write default, ID=SOCKET or ID=KEYFILE");
  }
  const given = equals < 0 ? [] : text.slice(equals + 1).split(",").filter((path) => path !== "");
  const [path] = equals < 0 ? [env.SSH_AUTH_SOCK] : given;
  if (!path) {
    throw refused(
      "--ssh",
      text,
      "no agent runs: SSH_AUTH_SOCK is not set",
      "start ssh-agent, or name its socket or a private key's file",
    );
  }
  const { fileAgent, socketAgent } = await import("../../client/ssh/key_agent.ts");
  const files = given.filter((one) => isKeyFile(one, id));
  if (files.length === 0 && given.length <= 1) {
    return [id, socketAgent(path)];
  }
  if (files.length < given.length) {
    throw refused(
      "--ssh",
      text,
      "it names a socket and something else",
      "give each an id of its own",
    );
  }
  return [id, await fileAgent(files, prompt)];
}

/** False for an agent's socket. Throws `argument_invalid` where the path does not exist. */
function isKeyFile(path: string, id: string): boolean {
  if (Deno.build.os === "windows" && path.startsWith("\\\\.\\pipe\\")) return false;
  try {
    const { isFile, isSocket } = Deno.statSync(path);
    if (isFile || isSocket) return isFile;
  } catch (error) {
    throw inputError(path, `SSH agent ${id}`, error);
  }
  throw refused("--ssh", path, "it is neither an agent's socket nor a private key's file");
}

/** `prompt`: asks for the passphrases of keys. */
export async function agentsOf(
  texts: readonly string[] | undefined,
  env: Environment,
  prompt: Prompt,
): Promise<Map<string, ConnectAgent>> {
  const agents = new Map<string, ConnectAgent>();
  for (const text of texts ?? []) {
    const [id, connect] = await agentOf(text, env, prompt);
    agents.set(id, connect);
  }
  return agents;
}

export interface NamedContexts {
  /** Folders by name. */
  folders: Map<string, string>;
  /** NAME=VALUE of the contexts that the server fetches: images, URLs, repositories. */
  elsewhere: string[];
}

const ELSEWHERE = /^(docker-image|https?|git|ssh):\/\/|^git@/;

/** Parses `NAME=FOLDER`, or NAME with a source that the server fetches. Throws `argument_invalid`. */
export function contextsOf(texts: readonly string[] | undefined): NamedContexts {
  const found: NamedContexts = { folders: new Map(), elsewhere: [] };
  for (const text of texts ?? []) {
    const equals = text.indexOf("=");
    if (equals < 1 || equals === text.length - 1) {
      throw refused(
        "--build-context",
        text,
        "expected NAME=PATH, or NAME=docker-image://IMAGE or a URL",
      );
    }
    const name = text.slice(0, equals).toLowerCase();
    const value = text.slice(equals + 1);
    if (ELSEWHERE.test(value)) {
      found.elsewhere.push(`${name}=${value}`);
      continue;
    }
    if (/^[a-z][a-z0-9+.-]+:\/\//.test(value) && !isAbsolute(value)) {
      throw refused(
        "--build-context",
        text,
        `${value.split(":")[0]} is not a known kind of context`,
      );
    }
    try {
      if (!Deno.statSync(value).isDirectory) {
        throw refused("--build-context", text, `${value} is not a directory`);
      }
    } catch (error) {
      if (systemCode(error)) throw inputError(value, `build context ${name}`, error);
      throw error;
    }
    found.folders.set(name, value);
  }
  return found;
}
