/** Files of instances, and what a copy needs to know of files on this machine. */
import type { FileChange, FileStat } from "../api/workload.ts";
import { hostFiles } from "../wire/files/host_files.ts";
import type { TarSegment } from "../oci/tar_write.ts";
import type { Client } from "./client.ts";

/** A path in an instance of a deployment. */
export interface RemotePath {
  name: string;
  /** Absent: the first instance that runs. */
  instance?: string;
  /** Absolute. */
  path: string;
}

const call = ({ name, instance, path }: RemotePath) => ({
  params: { name },
  query: { path, instance },
});

/** What is at a path; a link itself is described. Throws `not_found`. */
export function statFile(client: Client, at: RemotePath): Promise<FileStat> {
  // The call accepts JSON alone: the answer is no archive.
  return client.json("GET /deployments/{name}/archive", call(at));
}

/** A tar archive of the file or folder. Whoever reads it must not trust it. Throws `not_found`. */
export async function readArchive(
  client: Client,
  at: RemotePath,
): Promise<ReadableStream<Uint8Array>> {
  const response = await client.request("GET /deployments/{name}/archive", {
    ...call(at),
    accept: "application/x-tar",
  });
  return response.body!;
}

/** Throws `unsupported` where the server's engine does not tell. */
export const listChanges = (
  client: Client,
  { name, instance }: Omit<RemotePath, "path">,
): Promise<FileChange[]> =>
  client.json("GET /deployments/{name}/changes", { params: { name }, query: { instance } });

/** A tar archive of the instance's root, without its mounts. Whoever reads it must not trust it. */
export async function readRoot(
  client: Client,
  { name, instance }: Omit<RemotePath, "path">,
): Promise<ReadableStream<Uint8Array>> {
  const response = await client.request("GET /deployments/{name}/export", {
    ...{ params: { name }, query: { instance } },
    accept: "application/x-tar",
  });
  return response.body!;
}

/** Unpacks an archive into a folder of the instance. Throws `not_found`. */
export async function writeArchive(
  client: Client,
  at: RemotePath,
  tar: ReadableStream<Uint8Array>,
): Promise<void> {
  await client.json("PUT /deployments/{name}/archive", {
    ...call(at),
    body: tar,
    contentType: "application/x-tar",
  });
}

/** The time of a file in nanoseconds, where this machine tells it. */
export function exactTime(path: string): { mtime: number; mtimeNs: number } | undefined {
  return hostFiles().entry?.(path);
}

/** The stretches of a file that are no holes; undefined where it has none, or this machine does not tell. */
export function dataOf(path: string, info: Deno.FileInfo): TarSegment[] | undefined {
  if (info.blocks === null || info.blocks * 512 >= info.size) return undefined;
  const files = hostFiles();
  const fd = files.file(path);
  try {
    return files.data?.(fd, info.size);
  } finally {
    files.close(fd);
  }
}
