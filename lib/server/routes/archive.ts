/** Files of an instance, out and in; what it changed in its image's; all of its root. */
import { endpoint } from "../../api/endpoints.ts";
import { SvcError } from "../../base/errors.ts";
import type { FileAbility } from "../../deploy/caps.ts";
import type { ManagementDeps } from "../deps.ts";
import { json } from "../json.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";
import { requireAbilityFor } from "./ability.ts";
import { CallerTurns } from "./caller_turns.ts";

const TAR_TYPE = "application/x-tar";

/** Copies of one caller, of 16 that a host's backend does at once (lib/deploy/host/files/jobs.ts). */
const MOST_OF_ONE = 12;

/** The path that the query names: absolute in the container. */
function pathOf(query: Query): string {
  const path = query.text("path") ?? "";
  if (path.startsWith("/") && !path.includes("\0")) return path;
  throw new SvcError(
    "argument_invalid",
    `Cannot read query parameter path: expected an absolute path, got ${JSON.stringify(path)}`,
  );
}

const tarAnswer = (tar: ReadableStream<Uint8Array>) =>
  new Response(tar as ReadableStream<Uint8Array<ArrayBuffer>>, {
    headers: { "content-type": TAR_TYPE, "cache-control": "no-store" },
  });

async function read(deps: ManagementDeps, context: Context): Promise<Response> {
  const { request, url, signal, params: { name } } = context;
  const query = new Query(url);
  const path = pathOf(query);
  const { ability } = await requireAbilityFor(deps, "files", "read files of", name);
  const options = { instance: query.text("instance"), signal };
  const accept = request.headers.get("accept") ?? "";
  if (accept.includes("application/json") && !accept.includes(TAR_TYPE)) {
    const found = await ability.stat(name, path, options);
    if (found) return json(found);
    throw new SvcError("not_found", `Cannot read ${path} in ${name}: there is no such file`, {
      help: "check the path",
    });
  }
  const { tar } = await ability.read(name, path, options);
  return tarAnswer(tar);
}

async function write(
  deps: ManagementDeps,
  { request, url, signal, params: { name } }: Context,
): Promise<Response> {
  const query = new Query(url);
  const path = pathOf(query);
  const { ability } = await requireAbilityFor(deps, "files", "write files of", name);
  if (!request.body) {
    throw new SvcError("archive_invalid", `Cannot write ${path} in ${name}: there is no archive`);
  }
  await ability.write(name, path, request.body, { instance: query.text("instance"), signal });
  return new Response(null, { status: 204 });
}

/** Of an engine that tells them. */
async function ownFiles<K extends "changes" | "export">(
  deps: ManagementDeps,
  kind: K,
  attempt: string,
  name: string,
) {
  const { backend, ability } = await requireAbilityFor(deps, "files", attempt, name);
  const found = ability[kind];
  if (found) return found.bind(ability) as NonNullable<FileAbility[K]>;
  throw new SvcError(
    "unsupported",
    `Cannot ${attempt} ${name}: the deploy backend ${backend.name} cannot do it`,
  );
}

async function changes(
  deps: ManagementDeps,
  { url, signal, params: { name } }: Context,
): Promise<Response> {
  const list = await ownFiles(deps, "changes", "tell the changes of", name);
  return json(await list(name, { instance: new Query(url).text("instance"), signal }));
}

async function exported(
  deps: ManagementDeps,
  { url, signal, params: { name } }: Context,
): Promise<Response> {
  const read = await ownFiles(deps, "export", "export", name);
  return tarAnswer(await read(name, { instance: new Query(url).text("instance"), signal }));
}

export function archiveRoutes(deps: ManagementDeps): Route[] {
  const turns = new CallerTurns(deps.access, MOST_OF_ONE);
  const inTurns = (handler: (deps: ManagementDeps, context: Context) => Promise<Response>) =>
    turns.of((context) => handler(deps, context), { attempt: "copy files", archive: TAR_TYPE });
  return [
    {
      ...endpoint("GET /deployments/{name}/changes"),
      action: "exec",
      help:
        "What an instance (the first that runs, or `instance`) has changed in its image's files: paths, each `added`, " +
        "`modified` or `deleted`. Nothing of what is mounted in it.",
      handler: inTurns(changes),
    },
    {
      ...endpoint("GET /deployments/{name}/export"),
      action: "exec",
      help: "The root of an instance as a tar archive, without what is mounted in it.",
      handler: inTurns(exported),
    },
    {
      ...endpoint("GET /deployments/{name}/archive"),
      action: "exec",
      help:
        "The file or folder at `path` of an instance (the first that runs, or `instance`) as a tar archive, under " +
        "the path's last part; or, where Accept asks for JSON alone, what it is. A link is not followed.",
      handler: inTurns(read),
    },
    {
      ...endpoint("PUT /deployments/{name}/archive"),
      action: "exec",
      help:
        "Unpacks the tar archive in the body into the folder `path` of an instance, with the archive's owners; " +
        "existing files are replaced.",
      handler: inTurns(write),
    },
  ];
}
