/** A few entries as a ustar archive: the executable's packed code, a test's image layer or build context. */

export interface TarEntry {
  path: string;
  /** A regular file's bytes. */
  data?: Uint8Array | string;
  /** A symbolic link's target. */
  link?: string;
  directory?: boolean;
  mode?: number;
}

const BLOCK = 512;
const encoder = new TextEncoder();

function header(entry: TarEntry, size: number): Uint8Array {
  const block = new Uint8Array(BLOCK);
  const text = (at: number, value: string) => block.set(encoder.encode(value), at);
  const octal = (at: number, width: number, value: number) =>
    text(at, value.toString(8).padStart(width - 1, "0"));
  if (entry.path.length > 100) throw new Error(`path too long for this archive: ${entry.path}`);
  text(0, entry.directory ? `${entry.path.replace(/\/$/, "")}/` : entry.path);
  octal(100, 8, entry.mode ?? (entry.directory || entry.link ? 0o755 : 0o644));
  octal(108, 8, 0);
  octal(116, 8, 0);
  octal(124, 12, size);
  octal(136, 12, 0);
  text(148, " ".repeat(8));
  text(156, entry.directory ? "5" : entry.link === undefined ? "0" : "2");
  text(157, entry.link ?? "");
  text(257, "ustar\u000000");
  const sum = block.reduce((total, byte) => total + byte, 0);
  text(148, `${sum.toString(8).padStart(6, "0")}\0 `);
  return block;
}

/** The archive, with its two closing blocks. The same entries give the same bytes. */
export function tar(entries: TarEntry[]): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  for (const entry of entries) {
    const data = typeof entry.data === "string" ? encoder.encode(entry.data) : entry.data;
    const size = data?.length ?? 0;
    parts.push(header(entry, size));
    if (data) parts.push(data, new Uint8Array((BLOCK - size % BLOCK) % BLOCK));
  }
  parts.push(new Uint8Array(2 * BLOCK));
  const whole = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
