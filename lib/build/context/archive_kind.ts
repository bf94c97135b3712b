/** Tells whether a file is an archive that ADD unpacks, and reads its bytes without the compression. */
import { SvcError } from "../../base/errors.ts";
import { startProgram } from "../../base/process.ts";
import { decompress, detectCompression } from "../../oci/compression.ts";
import { streamRooted } from "../../sys/rooted_file.ts";

const HEAD = 512;

async function readHead(stream: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const head = new Uint8Array(HEAD);
  let have = 0;
  for await (const chunk of stream) {
    const take = chunk.subarray(0, HEAD - have);
    head.set(take, have);
    have += take.length;
    if (have === HEAD) break;
  }
  return head.subarray(0, have);
}

const startsWith = (bytes: Uint8Array, ...magic: number[]) =>
  magic.every((byte, index) => bytes[index] === byte);

/**
 * The program for a format that this process does not decompress itself; it is fast and runs beside the event
 * loop.
 */
function programFor(head: Uint8Array): string | undefined {
  if (startsWith(head, 0x42, 0x5a, 0x68)) return "bzip2";
  if (startsWith(head, 0xfd, 0x37, 0x7a, 0x58, 0x5a)) return "xz";
  return undefined;
}

async function* throughProgram(
  program: string,
  root: string,
  path: string,
): AsyncGenerator<Uint8Array, void, void> {
  const attempted = `Cannot unpack ${path.split("/").pop()}`;
  const child = startProgram(program, {
    args: ["-dc"],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }, {
    what: `${attempted}: the program ${program}`,
    help: `install ${program} on the server, or send the archive as gzip or zstd`,
  });
  const said = new Response(child.stderr).text();
  const fed = ReadableStream.from(streamRooted(root, path)).pipeTo(child.stdin);
  fed.catch(() => {/* the program ended before it had read all; its exit code tells why */});
  let whole = false;
  try {
    yield* child.stdout;
    whole = true;
  } finally {
    if (!whole) {
      try {
        child.kill("SIGKILL");
      } catch {
        // the program has already ended
      }
    }
    await child.status;
    await said;
  }
  if (!(await child.status).success) {
    throw new SvcError("archive_invalid", `${attempted}: ${(await said).trim()}`);
  }
}

async function headOf(root: string, path: string): Promise<Uint8Array> {
  return await readHead(streamRooted(root, path));
}

/** The bytes of a file inside `root`, decompressed where its first bytes say that it is compressed. */
export async function* plainBytes(
  root: string,
  path: string,
): AsyncGenerator<Uint8Array, void, void> {
  const program = programFor(await headOf(root, path));
  if (program) yield* throughProgram(program, root, path);
  else yield* decompress(ReadableStream.from(streamRooted(root, path)));
}

/**
 * True for a header whose checksum is right. An archive without entries does not count: ADD has nothing to
 * unpack.
 */
function isTarHeader(block: Uint8Array): boolean {
  if (block.length < HEAD) return false;
  const text = new TextDecoder("latin1").decode(block.subarray(148, 156));
  const stored = parseInt(text.replace(/[\0 ]+$/, "").trim(), 8);
  const sum = block.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0);
  return stored === sum;
}

/** True for a tar archive, plain or compressed with gzip, zstd, bzip2 or xz. */
export async function isArchive(root: string, path: string): Promise<boolean> {
  const head = await headOf(root, path);
  const compressed = programFor(head) !== undefined || detectCompression(head) !== "none";
  if (!compressed) return isTarHeader(head);
  try {
    return isTarHeader(await readHead(plainBytes(root, path)));
  } catch (error) {
    // A damaged archive is not unpacked: ADD copies the file as it is.
    if (error instanceof SvcError && error.code === "archive_invalid") return false;
    throw error;
  }
}
