/** `POST /images/load`: the images of an archive of `docker save`, or of an OCI archive, into the server's registry. */
import { join } from "../../base/path.ts";
import { SvcError } from "../../base/errors.ts";
import { type ArchiveFiles, openArchive } from "../../oci/archive.ts";
import { openDockerArchive } from "../../oci/archive_docker.ts";
import { openLayout, type PackedImages } from "../../oci/layout.ts";
import type { DockerApi } from "../api.ts";
import { streamed, type Tell } from "../messages.ts";
import { imagesOf, registriesFor } from "./access.ts";
import { copyTo, PULLING } from "./copying.ts";
import { shownName, type StoredName, storedName, UNNAMED } from "./names.ts";
import type { Answer, Call } from "../request.ts";

async function imagesIn(files: ArchiveFiles, signal: AbortSignal): Promise<PackedImages> {
  if (await files.size("manifest.json") !== undefined) {
    return await openDockerArchive(files, { signal });
  }
  if (await files.size("index.json") !== undefined) return await openLayout(files, { signal });
  throw new SvcError("archive_invalid", "Cannot load: it is no archive of images", { help: "" });
}

/** Where an image goes: under its name, where the archive names it. */
function placeOf(name: string | undefined, own: readonly string[]): StoredName {
  const unnamed = { repository: UNNAMED, tag: crypto.randomUUID() };
  // A layout's name may be a tag alone, or anything else.
  if (name === undefined || !name.includes(":")) return unnamed;
  try {
    return storedName(name, own);
  } catch {
    return unnamed;
  }
}

async function load(api: DockerApi, call: Call, path: string, tell: Tell): Promise<void> {
  const { signal } = call;
  const quiet = call.flag("quiet");
  const { own, store } = await imagesOf(api);
  const registries = registriesFor(api, signal);
  await using files = await openArchive(path, { signal });
  const images = await imagesIn(files, signal);
  for (const { name, digest } of images.images) {
    const top = await images.resolve("", digest, { signal });
    if (!top) throw new SvcError("archive_invalid", `Cannot load: ${digest} is not in it`);
    const to = placeOf(name, own);
    const origin = { source: images, repository: "", label: name ?? digest };
    const say: Tell = (message) => quiet || tell(message);
    await copyTo({ origin, top, to, registries, words: PULLING, tell: say, signal });
    if (to.repository !== UNNAMED) {
      tell({ stream: `Loaded image: ${shownName(to)}\n` });
      api.events.tell("image", "load", shownName(to), { name: shownName(to) });
      continue;
    }
    const image = await store.byName(`${to.repository}:${to.tag}`, signal);
    tell({ stream: `Loaded image ID: ${image?.id ?? digest}\n` });
  }
}

export async function loadImages(call: Call, api: DockerApi): Promise<Answer> {
  // Archives are read in any order: the body is kept until they are.
  const folder = await Deno.makeTempDir({ prefix: "svc-docker-load-" });
  const path = join(folder, "archive");
  try {
    const file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
    await ReadableStream.from(call.body()).pipeTo(file.writable, { signal: call.signal });
  } catch (error) {
    await Deno.remove(folder, { recursive: true });
    throw error;
  }
  return await streamed(
    (tell) => load(api, call, path, tell).finally(() => Deno.remove(folder, { recursive: true })),
    call.signal,
  );
}
