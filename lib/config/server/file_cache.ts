/** SPEC "Remote 9P file cache and writable mounts", and its rows of "Limits". */
import { readCoherence } from "../../base/coherence.ts";
import { SvcError } from "../../base/errors.ts";
import { absolutePath, invalid, positive } from "../checks.ts";
import { optionTable } from "../table.ts";

const section = "Remote file cache";
const MIN_CHUNK = 4096;
const MAX_CHUNK = 64 << 20;

function chunkSize(value: number, source: string): number {
  if (Number.isInteger(value) && value >= MIN_CHUNK && value <= MAX_CHUNK) return value;
  throw invalid(source, `${value} is not between ${MIN_CHUNK} and ${MAX_CHUNK} bytes`);
}

function coherence(value: string, source: string): string {
  try {
    readCoherence(value);
    return value;
  } catch (error) {
    throw invalid(source, (error as Error).message);
  }
}

function checkFolder({ fileCache, fileCacheDir }: { fileCache?: boolean; fileCacheDir?: string }) {
  if (!fileCache || fileCacheDir !== undefined) return;
  throw new SvcError(
    "config_invalid",
    "Cannot use SVC_FILE_CACHE: SVC_FILE_CACHE_DIR is not set",
    { help: "set it to a folder on a volume of its own" },
  );
}

export const FILE_CACHE = optionTable([
  {
    key: "fileCache",
    kind: "bool",
    env: ["SVC_FILE_CACHE"],
    flag: "file-cache",
    default: false,
    section,
    help: "Keeps what is read of mounts with ,cache on this server's disk.",
  },
  {
    key: "fileCacheDir",
    kind: "string",
    env: ["SVC_FILE_CACHE_DIR"],
    flag: "file-cache-dir",
    placeholder: "DIR",
    section,
    help:
      "Where: a folder on a volume of its own, outside the data directory. Required by SVC_FILE_CACHE.",
    check: absolutePath,
  },
  {
    key: "fileCacheChunkSize",
    kind: "bytes",
    env: ["SVC_FILE_CACHE_CHUNK_SIZE"],
    flag: "file-cache-chunk-size",
    default: 1 << 20,
    section,
    help: "Bytes that are fetched and kept together, 4 KiB to 64 MiB.",
    check: chunkSize,
  },
  {
    key: "fileCacheMaxBytes",
    kind: "bytes",
    env: ["SVC_FILE_CACHE_MAX_BYTES"],
    flag: "file-cache-max-bytes",
    defaultText: "unlimited",
    section,
    help: "Above this size the files that were not opened for the longest time are removed.",
    check: positive,
  },
  {
    key: "blockCoherence",
    kind: "string",
    env: ["SVC_BLOCK_COHERENCE"],
    defaultText: "classic",
    placeholder: "subhash,defer,subfill",
    section,
    help:
      "Options of mounts with ,async, between commas or spaces: subhash, defer, subfill (which implies " +
      "subhash). Those that `svc deploy` has in its environment too are used.",
    check: coherence,
  },
  {
    key: "blockReadahead",
    kind: "bytes",
    env: ["SVC_BLOCK_READAHEAD"],
    defaultText: "off",
    section,
    help: "With subfill: bytes that are fetched ahead of a mount's reads, at most, such as 64k.",
  },
], checkFolder);
