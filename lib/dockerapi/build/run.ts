/** Runs a build of docker's clients on the server, with what the client lends it. */
import type { BuildEvent } from "../../api/build.ts";
import type { Logins } from "../../api/build_logins.ts";
import {
  type AttachRequest,
  CONTEXT_EXPORT,
  type FolderExport,
  namedExport,
} from "../../api/build_session.ts";
import { parseIgnore } from "../../build/parse/ignore.ts";
import { type ExportedFolder, exportFolder } from "../../client/build_export.ts";
import { type BuildInputs, openBuildSession } from "../../client/build_session.ts";
import type { Client } from "../../client/client.ts";
import { tarEnd } from "../../oci/tar_write.ts";

/** A folder of this machine. */
export interface LentFolder {
  root: string;
  /** Text of the rules of a `.dockerignore`. */
  rules: string;
}

export interface BuildWork {
  /** The query of `POST /build`. */
  query: URLSearchParams;
  context:
    | LentFolder & { kind: "folder"; dockerfile: string }
    | { kind: "archive"; body: AsyncIterable<Uint8Array> }
    /** The query names it. */
    | { kind: "remote" };
  contexts?: ReadonlyMap<string, LentFolder>;
  secrets?: BuildInputs["secrets"];
  agents?: BuildInputs["agents"];
  logins?: Logins;
}

/** The build's events, the last one `result` or `error`. Throws what the server refuses before that. */
export async function* runBuild(
  client: Client,
  work: BuildWork,
  signal: AbortSignal,
): AsyncGenerator<BuildEvent> {
  const { query, context, contexts = new Map<string, LentFolder>(), logins } = work;
  const secrets: BuildInputs["secrets"] = work.secrets ?? new Map();
  const agents: BuildInputs["agents"] = work.agents ?? new Map();
  using held = new DisposableStack();
  const folders = new Map<string, ExportedFolder>();
  const lend = async (name: string, { root, rules }: LentFolder): Promise<FolderExport> => {
    const ignore = parseIgnore(rules);
    const folder = held.use(await exportFolder({ root, ignore, onSkip: () => {} }));
    folders.set(name, folder);
    return { identity: folder.identity };
  };
  const request: AttachRequest = {
    query: query.toString(),
    context: { kind: "tar" },
    contexts: {},
    secrets: [...secrets.keys()],
    ssh: [...agents.keys()],
    ...(logins && { logins }),
  };
  if (context.kind === "folder") {
    const { dockerfile, rules: ignore } = context;
    const exported = await lend(CONTEXT_EXPORT, context);
    request.context = { kind: "folder", dockerfile, ignore, ...exported };
  }
  for (const [name, folder] of contexts) {
    request.contexts![name] = await lend(namedExport(name), folder);
  }
  const body = context.kind === "archive" ? context.body : [tarEnd()];
  const session = await openBuildSession(client, {
    folders,
    ...context.kind !== "folder" && { archive: ReadableStream.from(body) },
    ...{ secrets, agents, signal },
  });
  yield* session.build(request);
}
