/** Files of containers: `docker cp` both ways, `docker diff`, `docker export`. */
import type { FileStat } from "../../api/workload.ts";
import { listChanges, readArchive, readRoot, statFile, writeArchive } from "../../client/files.ts";
import type { DockerApi } from "../api.ts";
import { invalid, notFound, unless } from "../errors.ts";
import type { Answer, Call } from "../request.ts";
import type { ApiRoute } from "../route.ts";

/** st_mode's types of files, as Go's os.FileMode has them. */
const TYPES: Record<number, number> = {
  0o040000: 2 ** 31,
  0o120000: 2 ** 27,
  0o060000: 2 ** 26,
  0o010000: 2 ** 25,
  0o140000: 2 ** 24,
  0o020000: 2 ** 26 + 2 ** 21,
};
const BITS: [number, number][] = [[0o4000, 2 ** 23], [0o2000, 2 ** 22], [0o1000, 2 ** 20]];

export function goMode(mode: number): number {
  const bits = BITS.reduce((sum, [bit, value]) => sum + (mode & bit ? value : 0), 0);
  return (mode & 0o777) + bits + (TYPES[mode & 0o170000] ?? 0);
}

function statHeader({ name, size, mode, modified, linkTarget = "" }: FileStat) {
  const stat = { name, size, mode: goMode(mode), mtime: modified, linkTarget };
  const bytes = new TextEncoder().encode(JSON.stringify(stat));
  return { "x-docker-container-path-stat": bytes.toBase64() };
}

async function placeOf(call: Call, api: DockerApi) {
  const path = call.query.get("path");
  if (!path) throw invalid("Cannot copy: the path is empty");
  const { record } = await api.containers.find(call.params.id, call.signal);
  // Paths are relative to the root.
  const absolute = path.startsWith("/") ? path : `/${path}`;
  return { name: record.deployment, instance: record.instance, path: absolute, record };
}

/** Docker's words for a path that is not there. */
async function stat(call: Call, api: DockerApi, at: Awaited<ReturnType<typeof placeOf>>) {
  try {
    return await statFile(api.client(call.signal), at);
  } catch (error) {
    unless("not_found")(error);
    throw notFound(`Could not find the file ${at.path} in container ${at.record.name}`, error);
  }
}

async function head(call: Call, api: DockerApi): Promise<Answer> {
  return { headers: statHeader(await stat(call, api, await placeOf(call, api))) };
}

async function get(call: Call, api: DockerApi): Promise<Answer> {
  const at = await placeOf(call, api);
  const headers = statHeader(await stat(call, api, at));
  const stream = await readArchive(api.client(call.signal), at);
  return { headers: { ...headers, "content-type": "application/x-tar" }, stream };
}

async function put(call: Call, api: DockerApi): Promise<Answer> {
  const at = await placeOf(call, api);
  const { mode } = await stat(call, api, at);
  const isFolder = (mode & 0o170000) === 0o040000;
  if (!isFolder) {
    throw invalid(`${at.path}: extraction point is not a directory`);
  }
  const tar = ReadableStream.from(unpacked(call.body()));
  await writeArchive(api.client(call.signal), at, tar);
  return {};
}

/** Clients may send the archive compressed with gzip. */
async function* unpacked(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const parts = body[Symbol.asyncIterator]();
  const first = await parts.next();
  if (first.done) return;
  const all = async function* () {
    yield first.value;
    for (let next = await parts.next(); !next.done; next = await parts.next()) yield next.value;
  };
  const [a, b] = first.value;
  if (a !== 0x1f || b !== 0x8b) return yield* all();
  yield* ReadableStream.from(all()).pipeThrough(
    new DecompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>,
  );
}

const KINDS = ["modified", "added", "deleted"];

async function changes(call: Call, api: DockerApi): Promise<Answer> {
  const { record: { deployment: name, instance } } = await api.containers.find(
    call.params.id,
    call.signal,
  );
  const all = await listChanges(api.client(call.signal), { name, instance });
  return { json: all.map(({ path, kind }) => ({ Path: path, Kind: KINDS.indexOf(kind) })) };
}

async function exported(call: Call, api: DockerApi): Promise<Answer> {
  const { record } = await api.containers.find(call.params.id, call.signal);
  const { deployment: name, instance } = record;
  const stream = await readRoot(api.client(call.signal), { name, instance });
  api.containers.life.tell(record, "export");
  return { headers: { "content-type": "application/octet-stream" }, stream };
}

export const ARCHIVE_ROUTES: readonly ApiRoute[] = [
  { method: "GET", path: "/containers/{id}/changes", handler: changes },
  { method: "GET", path: "/containers/{id}/export", handler: exported },
  { method: "HEAD", path: "/containers/{id}/archive", handler: head },
  { method: "GET", path: "/containers/{id}/archive", handler: get },
  { method: "PUT", path: "/containers/{id}/archive", handler: put },
];
