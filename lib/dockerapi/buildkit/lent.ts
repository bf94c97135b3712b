/**
 * What docker's client lends a build through its session: folders, an archive, secrets, SSH agents, logins. Each is
 * asked for when it is needed; secrets and keys are passed on, and never kept here.
 */
import { join } from "../../base/path.ts";
import { SvcError } from "../../base/errors.ts";
import { readTextFile } from "../../base/text_file.ts";
import type { Logins } from "../../api/build_logins.ts";
import { ignoreFiles } from "../../build/parse/ignore.ts";
import { LIMITS } from "../../build/parse/limits.ts";
import type { BuildInputs, ConnectAgent } from "../../client/build_session.ts";
import { imagesOf, registriesOf } from "../../client/named_images.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { isCode, unless } from "../errors.ts";
import type { LentFolder } from "../build/run.ts";
import { readFolder } from "./folder.ts";
import { answers, type BuildClient } from "./sessions.ts";
import { CheckAgent, Credentials, ForwardAgent, GetSecret, ReadUpload } from "./session_api.ts";

const isMissing = (error: unknown) => isCode(error, "not_found", "unsupported", "upstream_failed");

/** Ids that a Dockerfile names for mounts of this type. */
export function mountIds(dockerfile: string, type: "secret" | "ssh"): string[] {
  const ids = new Set<string>();
  for (const [, text] of dockerfile.matchAll(/--mount=(\S+)/g)) {
    const fields = new Map(
      text.split(",").map((field) => {
        const [key, ...rest] = field.split("=");
        return [key.toLowerCase(), rest.join("=").replace(/^["']|["']$/g, "")];
      }),
    );
    if (fields.get("type") !== type) continue;
    const target = fields.get("target") ?? fields.get("dst") ?? fields.get("destination");
    const otherwise = type === "ssh" ? "default" : target?.split("/").at(-1);
    const id = fields.get("id") ?? fields.get("env") ?? otherwise;
    if (id) ids.add(id);
  }
  return [...ids];
}

/** The text of a file of a folder that was read from the client; undefined where there is none. */
export async function textIn(folder: string, name: string): Promise<string | undefined> {
  const refused = (why: string) =>
    new SvcError("context_invalid", `Cannot read ${name} of docker's client: ${why}`, { help: "" });
  try {
    const [root, path] = await Promise.all(
      [folder, join(folder, name)].map((one) => Deno.realPath(one)),
    );
    // Links are as the client has them, and would lead to this machine's files.
    if (!path.startsWith(`${root}/`)) throw refused("it leads out of its folder");
    return await readTextFile(path, LIMITS.dockerfile);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error instanceof SvcError ? error : refused((error as Error).message);
  }
}

export interface LentDockerfile {
  text: string;
  /** Text of the ignore rules that belong to it. */
  rules: string;
}

export class Lent {
  /** `scratch`: an empty folder for what is read. */
  constructor(
    private readonly client: BuildClient,
    private readonly scratch: string,
    private readonly signal: AbortSignal,
  ) {}

  async #folder(name: string, paths?: readonly string[], excludes?: readonly string[]) {
    const root = await Deno.makeTempDir({ dir: this.scratch });
    const query = { name, ...(paths && { paths }), ...(excludes && { excludes }) };
    const bytes = await readFolder(this.client, query, root, this.signal);
    return { root, bytes };
  }

  /** The Dockerfile of the folder `dockerfile`, and its rules or those of the context. */
  async dockerfile(path: string): Promise<LentDockerfile> {
    const [own, common] = ignoreFiles(path);
    const { root } = await this.#folder("dockerfile", [path, own]);
    const text = await textIn(root, path);
    if (text === undefined) {
      throw new SvcError(
        "dockerfile_invalid",
        `failed to read dockerfile: open ${path}: no such file or directory`,
        { help: "" },
      );
    }
    const rules = await textIn(root, own);
    if (rules !== undefined) return { text, rules };
    const context = await this.#folder("context", [common]);
    return { text, rules: await textIn(context.root, common) ?? "" };
  }

  /** A folder by the client's own name of it, and the bytes of its files. */
  async folder(name: string, rules = ""): Promise<LentFolder & { bytes: number }> {
    const excludes = rules.split(/\r?\n/).map((line) => line.trim())
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => line.replace(/^(!?)\/+/, "$1"));
    return { ...await this.#folder(name, undefined, excludes), rules };
  }

  /** An archive that the client was given on its standard input. */
  async *upload(path: string): AsyncGenerator<Uint8Array> {
    using call = this.client.peer.open(ReadUpload, "Cannot read the context from docker's client", {
      metadata: { urlpath: path },
      signal: this.signal,
    });
    call.end();
    for (let message; (message = await call.receive());) yield message.data;
  }

  secrets(dockerfile: string): BuildInputs["secrets"] {
    const { client, signal } = this;
    if (!answers(client, GetSecret)) return new Map();
    return new Map(
      mountIds(dockerfile, "secret").map((id) => [id, async () => {
        try {
          const what = `Cannot read secret ${id} from docker's client`;
          return (await client.peer.call(GetSecret, { id }, what, { signal })).data;
        } catch (error) {
          unless("not_found")(error);
        }
      }]),
    );
  }

  /** The agents that the client has. */
  async agents(dockerfile: string): Promise<BuildInputs["agents"]> {
    const { client: { peer }, signal } = this;
    const agents = new Map<string, ConnectAgent>();
    if (!answers(this.client, CheckAgent)) return agents;
    for (const id of mountIds(dockerfile, "ssh")) {
      try {
        await peer.call(CheckAgent, { id }, `Cannot use SSH agent ${id}`, { signal });
      } catch (error) {
        if (!isMissing(error)) throw error;
        continue;
      }
      agents.set(id, () => Promise.resolve(this.#agent(id)));
    }
    return agents;
  }

  #agent(id: string): Duplex {
    const call = this.client.peer.open(ForwardAgent, `Cannot use SSH agent ${id}`, {
      metadata: { "buildkit.ssh.id": id },
      signal: this.signal,
    });
    return {
      read: async () => (await call.receive())?.data,
      write: (data) => call.send({ data }),
      closeWrite: () => Promise.resolve(call.end()),
      reset: () => call[Symbol.dispose](),
    };
  }

  /** The client's logins for registries that the Dockerfile names. */
  async logins(dockerfile: string): Promise<Logins | undefined> {
    const { client: { peer }, signal } = this;
    if (!answers(this.client, Credentials)) return undefined;
    const logins: Logins = {};
    for (const host of registriesOf(imagesOf(dockerfile))) {
      const asked = host === "docker.io" ? "registry-1.docker.io" : host;
      try {
        const { username, secret: password } = await peer.call(
          Credentials,
          { host: asked },
          `Cannot ask for the login for ${host}`,
          { signal },
        );
        if (username && password) logins[host] = { username, password };
        else if (password) logins[host] = { identityToken: password };
      } catch (error) {
        // Most images need no login.
        if (!isMissing(error)) throw error;
      }
    }
    return Object.keys(logins).length > 0 ? logins : undefined;
  }
}
