/** Lists the processes of an instance, by the files of its own /proc: no program of the image is needed. */
import type { DeployCaps } from "../../../lib/deploy/caps.ts";
import {
  bootTimeOf,
  nameOf,
  type ProcessFiles,
  processRow,
  TITLES,
} from "../../../lib/deploy/process_rows.ts";
import { type Sftp, SftpError } from "../../../lib/incus/sftp.ts";
import { type DeployedParts, requireRunning } from "../shared/engine_api/abilities/parts.ts";
import type { IncusPlace } from "./place.ts";

/** The init of later versions of Incus, which is no part of the workload. */
const INIT = "incusd";

/** Undefined where it is missing: the process has ended. */
async function kernelBytes(sftp: Sftp, path: string): Promise<Uint8Array | undefined> {
  try {
    return await new Response(ReadableStream.from(sftp.read(path, { ahead: 1 }))).bytes();
  } catch (error) {
    // "no such process" is told where it ends between opening and reading.
    if (error instanceof SftpError) return undefined;
    throw error;
  }
}

async function filesOf(sftp: Sftp, pid: number): Promise<ProcessFiles | undefined> {
  const [stat, status, cmdline] = await Promise.all(
    ["stat", "status", "cmdline"].map((file) => kernelBytes(sftp, `/proc/${pid}/${file}`)),
  );
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return stat && status && { stat: text(stat), status: text(status), cmdline };
}

async function rowsOf(sftp: Sftp): Promise<string[][]> {
  const boot = bootTimeOf(new TextDecoder().decode(await kernelBytes(sftp, "/proc/stat")));
  const pids: number[] = [];
  for await (const { name } of sftp.readdir("/proc")) {
    if (/^\d+$/.test(name)) pids.push(Number(name));
  }
  const all = await Promise.all(
    pids.sort((a, b) => a - b).map(async (pid) => ({ pid, files: await filesOf(sftp, pid) })),
  );
  return all.flatMap(({ pid, files }) =>
    files && !(pid === 1 && nameOf(files) === INIT) ? [processRow(pid, files, boot)] : []
  );
}

export function topAbility(
  { client }: IncusPlace,
  parts: DeployedParts,
): NonNullable<DeployCaps["top"]> {
  return async (name, { instance, signal } = {}) =>
    await Promise.all(
      requireRunning(parts, name, instance).map(async ({ id, container }) => {
        using sftp = await client.sftp(
          `/instances/${container}`,
          `Cannot list the processes of ${id}`,
          signal,
        );
        return { instance: id, titles: TITLES, processes: await rowsOf(sftp) };
      }),
    );
}
