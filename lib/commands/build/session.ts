/**
 * How `svc build` sends a build: in a session if the server supports it, else with the context as an archive.
 */
import { join } from "../../base/path.ts";
import type { BuildEvent } from "../../api/build.ts";
import { type Logins, LOGINS_HEADER, loginsHeader } from "../../api/build_logins.ts";
import {
  type AttachRequest,
  CONTEXT_EXPORT,
  type FolderExport,
  namedExport,
} from "../../api/build_session.ts";
import { SvcError } from "../../base/errors.ts";
import type { Io } from "../../base/terminal.ts";
import { parseIgnore } from "../../build/parse/ignore.ts";
import { type ExportedFolder, exportFolder } from "../../client/build_export.ts";
import {
  type BuildSession,
  type ConnectAgent,
  openBuildSession,
} from "../../client/build_session.ts";
import { type Client, EVENTS_TYPE } from "../../client/client.ts";
import { readRules, type SentContext } from "./context.ts";
import type { NamedContexts } from "./inputs.ts";

export interface SentBuild {
  client: Client;
  query: URLSearchParams;
  context: SentContext;
  contexts: NamedContexts["folders"];
  lazy: boolean;
  secrets: Map<string, () => Promise<Uint8Array>>;
  agents: Map<string, ConnectAgent>;
  logins?: Logins;
  io: Io;
}

/** Error codes of servers that do not know build sessions. */
const NO_SESSIONS = ["not_found", "method_not_allowed", "upstream_failed", "argument_invalid"];

/** The flag of an input that needs a session; undefined where there is none. */
function needsSession({ contexts, secrets, agents }: SentBuild): string | undefined {
  if (secrets.size > 0) return "--secret";
  if (agents.size > 0) return "--ssh";
  return contexts.size > 0 ? "--build-context" : undefined;
}

/** The session; undefined where the server does not support it and the build does not need it. */
async function openSession(
  build: SentBuild,
  folders: Map<string, ExportedFolder>,
): Promise<BuildSession | undefined> {
  const { client, context, secrets, agents, io } = build;
  try {
    return await openBuildSession(client, {
      folders,
      ...!context.folder && { archive: context.body },
      secrets,
      agents,
      signal: io.signal,
    });
  } catch (error) {
    if (!(error instanceof SvcError) || !NO_SESSIONS.includes(error.code)) throw error;
    const flag = needsSession(build);
    if (!flag) return undefined;
    throw new SvcError(
      "unsupported",
      `Cannot build with ${flag}: ${client.server} has no build sessions`,
      { cause: error, help: "update the server, or check that no proxy removes Upgrade headers" },
    );
  }
}

/** The build's events, the last one `result` or `error`. */
export async function* sendBuild(build: SentBuild): AsyncGenerator<BuildEvent> {
  const { client, query, context, io, lazy, secrets, agents, logins } = build;
  using held = new DisposableStack();
  const onSkip = (path: string, why: string) =>
    void io.stderr.write(`svc: warning: ${path} is ${why}; it is not sent\n`);
  const folders = new Map<string, ExportedFolder>();
  const exported = async (name: string, root: string, rules: string): Promise<FolderExport> => {
    const ignore = parseIgnore(rules);
    const folder = held.use(await exportFolder({ root, ignore, onSkip }));
    folders.set(name, folder);
    return { identity: folder.identity, ...lazy && { lazy } };
  };
  // The folders are exported while the session is opened.
  const opening = openSession(build, folders);
  opening.catch(() => {/* told where it is waited for */});
  held.defer(() => void opening.then((session) => session?.[Symbol.dispose](), () => {}));
  const { folder } = context;
  const request: AttachRequest = {
    query: query.toString(),
    context: folder
      ? {
        kind: "folder",
        dockerfile: folder.dockerfile,
        ignore: folder.rules,
        identity: (await exported(CONTEXT_EXPORT, folder.root, folder.rules)).identity,
      }
      : { kind: "tar" },
    contexts: {},
    secrets: [...secrets.keys()],
    ssh: [...agents.keys()],
    ...(logins && { logins }),
  };
  for (const [name, root] of build.contexts) {
    request.contexts![name] = await exported(
      namedExport(name),
      root,
      await readRules(join(root, ".dockerignore")) ?? "",
    );
  }
  const session = await opening;
  if (session) return yield* session.build(request);
  yield* client.events("POST /build", {
    query,
    body: context.body,
    contentType: "application/x-tar",
    accept: EVENTS_TYPE,
    ...(logins && { headers: { [LOGINS_HEADER]: loginsHeader(logins) } }),
  });
}
