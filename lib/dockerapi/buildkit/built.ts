/** One build for a client with a session: what it lends, the build on the server, what is told of it. */
import type { BuildEvent, BuildResult } from "../../api/build.ts";
import { SvcError } from "../../base/errors.ts";
import { removeUnpacked } from "../../base/fs.ts";
import { isSafe } from "../../client/named_images.ts";
import type { DockerApi } from "../api.ts";
import { type BuildWork, type LentFolder, runBuild } from "../build/run.ts";
import { type BuildWish, cannotBuild, queryOf } from "../build/wish.ts";
import { imagesOf } from "../images/access.ts";
import type { Asked } from "./attributes.ts";
import { Lent, type LentDockerfile } from "./lent.ts";
import { foreignBases } from "./local_bases.ts";
import type { BuildClient } from "./sessions.ts";

export interface SessionBuild {
  api: DockerApi;
  client: BuildClient;
  asked: Asked;
  /** An archive as the context, where it came in another way. */
  archive?: AsyncIterable<Uint8Array>;
  onEvent(event: BuildEvent): void;
  signal: AbortSignal;
}

/** Tells of the reading of the client's folders, as a vertex. */
async function told<T>(
  { onEvent }: Pick<SessionBuild, "onEvent">,
  name: string,
  work: (progress: (bytes: number) => void) => Promise<T>,
): Promise<T> {
  const id = `client ${name}`;
  const began = performance.now();
  onEvent({ type: "vertex", id, name });
  onEvent({ type: "start", id, time: new Date().toISOString() });
  try {
    const result = await work((bytes) => {
      const label = `transferring ${name.replace(/^.*load /, "")}`;
      onEvent({ type: "progress", id, label, current: bytes, total: bytes });
    });
    onEvent({ type: "done", id, durationMs: performance.now() - began });
    return result;
  } catch (error) {
    onEvent({ type: "failed", id, message: error instanceof Error ? error.message : "" });
    throw error;
  }
}

async function namedFolders(build: SessionBuild, lent: Lent): Promise<Map<string, LentFolder>> {
  const folders = new Map<string, LentFolder>();
  for (const [name, theirs] of build.asked.folders) {
    const folder = await told(build, `[context ${name}] load from client`, async (progress) => {
      const found = await lent.folder(theirs);
      progress(found.bytes);
      return found;
    });
    folders.set(name, folder);
  }
  return folders;
}

interface Context {
  context: BuildWork["context"];
  dockerfile?: LentDockerfile;
}

async function contextOf(build: SessionBuild, lent: Lent): Promise<Context> {
  const { asked: { wish, upload }, archive } = build;
  if (archive) return { context: { kind: "archive", body: archive } };
  if (upload) return { context: { kind: "archive", body: lent.upload(upload) } };
  if (wish.remote) return { context: { kind: "remote" } };
  const dockerfile = await told(
    build,
    "[internal] load build definition from client",
    () => lent.dockerfile(wish.dockerfile),
  );
  const folder = await told(build, "[internal] load build context", async (progress) => {
    const found = await lent.folder("context", dockerfile.rules);
    progress(found.bytes);
    return found;
  });
  const { text, rules } = dockerfile;
  return { context: { kind: "folder", root: folder.root, dockerfile: text, rules }, dockerfile };
}

async function work(build: SessionBuild, lent: Lent): Promise<BuildWork> {
  const { api, asked: { wish }, client, signal } = build;
  const access = await imagesOf(api);
  // What cannot be honoured is refused before anything is sent.
  queryOf(wish, access);
  const { context, dockerfile } = await contextOf(build, lent);
  const contexts = await namedFolders(build, lent);
  const text = dockerfile?.text ?? "";
  const { server } = api.client(signal);
  const logins = isSafe(server) ? await lent.logins(text) : undefined;
  const kept = await foreignBases(text, access, signal);
  const whole: BuildWish = { ...wish, contexts: { ...kept, ...wish.contexts } };
  if (client.gone.aborted) throw client.gone.reason;
  return {
    query: queryOf(whole, access),
    ...{ context, contexts, secrets: lent.secrets(text), agents: await lent.agents(text) },
    ...(logins && { logins }),
  };
}

/** Throws the build's failure. What the client lent is gone from here when this ends. */
export async function buildOnce(build: SessionBuild): Promise<BuildResult> {
  const signal = AbortSignal.any([build.signal, build.client.gone]);
  const scratch = await Deno.makeTempDir({ prefix: "svc-docker-build-" });
  try {
    const lent = new Lent(build.client, scratch, signal);
    const client = build.api.client(signal);
    for await (const event of runBuild(client, await work({ ...build, signal }, lent), signal)) {
      if (event.type === "result") return event.result;
      if (event.type === "error") {
        const { code, detail } = event.error;
        throw new SvcError(code, detail, { help: "" });
      }
      build.onEvent(event);
    }
  } finally {
    await removeUnpacked(scratch);
  }
  throw new SvcError("upstream_failed", "Cannot tell how the build ended: the server closed it");
}

/** The entitlements of a request are refused: they are the person's to give with svc's own command. */
export function refuseEntitlements(entitlements: readonly string[]): void {
  if (entitlements.length === 0) return;
  throw cannotBuild(`--allow ${entitlements.join(", ")}`, "svc build --allow may");
}
