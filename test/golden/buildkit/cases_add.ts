/** ADD: archives, URLs, git repositories, checksums. */
import { brotliCompressSync, gzipSync, zstdCompressSync } from "node:zlib";
import { type TarFields, TarWriter } from "../../../lib/oci/tar_write.ts";
import type { Case } from "./case.ts";

const encoder = new TextEncoder();

export function archive(entries: (TarFields & { text?: string })[]): Uint8Array<ArrayBuffer> {
  const writer = new TarWriter();
  const parts: Uint8Array[] = [];
  for (const { text = "", ...entry } of entries) {
    const data = encoder.encode(text);
    parts.push(writer.header({ mtime: 1_400_000_000, ...entry, size: data.length }));
    if (data.length > 0) parts.push(data, writer.data(data));
  }
  parts.push(writer.end());
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Folders, links, owners, an attribute. */
const PLAIN_TAR = archive([
  { path: "top", type: "directory", mode: 0o750, uid: 11, gid: 12 },
  { path: "top/file", type: "file", text: "from tar\n", mode: 0o640, uid: 13, gid: 14 },
  { path: "top/hard", type: "hardlink", linkpath: "top/file", mode: 0o640, uid: 13, gid: 14 },
  { path: "top/link", type: "symlink", linkpath: "file" },
  { path: "implied/deep/f", type: "file", text: "x\n", mode: 0o755 },
  { path: "top/noted", type: "file", xattrs: new Map([["user.note", encoder.encode("v")]]) },
]);

const bytes = (base64: string) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));

/** "f": "squeezed\n", mode 644, as `tar c f | bzip2` and `tar c f | xz` give it. */
const BZIP2 = bytes(
  "QlpoOTFBWSZTWQQbR+8AAH37kMoQAGBAAH2AAADnAL4QBAAACCAAdQ1MKaA0ZpGg9IJJTE0DIDRoFT6mEHIQ" +
    "RtSEjF82Kxe0ECGRSwJuEtmIVXgoBMRSaIpBWlUzGBEGs7nZh6H+pO+cRG99ZpIPxdyRThQkAQbR+8A=",
);
const XZ = bytes(
  "/Td6WFoAAATm1rRGAgAhARYAAAB0L+Wj4Cf/AHBdADMAM1AYaImDAdzibiD+ALiNiq6Vk01qs2xbHEhci2Ig" +
    "l7F4jC3Z+lbakbLxbVGMimG/he9ZjbERlM6e1xUW3cKyfQfqHK/1rc2X9tFqj6bTjxPL4F/bXo5XvfArCdhj" +
    "Y5INSQETey7S8TwIABZQygAAxK98MFylZ2YAAYwBgFAAAEWxohaxxGf7AgAAAAAEWVo=",
);

export const ADD_CASES: Case[] = [
  {
    name: "add-tar",
    dockerfile: "FROM base\nADD a.tar /x\nADD a.tar /y/\nRUN mkdir /z && echo old > /z/top\n" +
      "WORKDIR /w\nADD a.tar .",
    files: { "a.tar": { data: PLAIN_TAR } },
  },
  {
    name: "add-compressed",
    dockerfile: "FROM base\nADD a.tgz /gz/\nADD a.tzst /zst/\nADD b.bz2 /bz2/\nADD x.xz /xz/",
    files: {
      "a.tgz": { data: gzipSync(PLAIN_TAR) },
      "a.tzst": { data: zstdCompressSync(PLAIN_TAR) },
      "b.bz2": { data: BZIP2 },
      "x.xz": { data: XZ },
    },
  },
  {
    name: "add-no-archive",
    dockerfile:
      "FROM base\nADD plain.gz /1/\nADD text.tar /2/\nADD empty.tar /3/\nADD br.tar /4/\nADD d /5",
    files: {
      "plain.gz": { data: gzipSync("not a tar") },
      "text.tar": "not a tar either\n",
      "empty.tar": "",
      "br.tar": { data: brotliCompressSync(PLAIN_TAR) },
      "d/a.tar": { data: PLAIN_TAR },
      "d/f": "f",
    },
  },
  {
    name: "add-tar-flags",
    dockerfile: "FROM base\nADD --chown=21:22 a.tar /1/\nADD --chmod=700 a.tar f /2/\n" +
      "ADD --unpack=false a.tar /3/\nADD *.tar /4/",
    files: { "a.tar": { data: PLAIN_TAR }, f: "f" },
  },
  {
    name: "add-tar-over",
    dockerfile: "FROM base\nRUN mkdir -p /t/top/file /real && echo x > /t/top/file/x && " +
      "ln -s /real /t/implied && chmod 700 /t/top\nADD a.tar /t",
    files: { "a.tar": { data: PLAIN_TAR } },
  },
  {
    name: "add-tar-escapes",
    dockerfile: "FROM base\nADD a.tar /t/",
    files: {
      "a.tar": {
        data: archive([
          { path: "./dot/f", type: "file", text: "1" },
          { path: "out", type: "symlink", linkpath: "/etc" },
          { path: "dev", type: "char", devMajor: 1, devMinor: 3 },
          { path: "pipe", type: "fifo" },
        ]),
      },
    },
  },
  {
    name: "add-tar-empty",
    dockerfile: "FROM base\nADD a.tar /t/",
    files: { "a.tar": { data: archive([]) } },
  },
  {
    name: "add-files",
    dockerfile: "FROM base\nADD a b/ /x/\nADD a /y\nADD --exclude=*.o b /z\nADD <<EOF /h\nhi\nEOF",
    files: { a: "a", "b/c": "c", "b/d.o": "o" },
  },
  {
    name: "add-url",
    dockerfile: "FROM base\nADD {{http}}/dir/file.txt /1/\nADD {{http}}/dir/file.txt /2\n" +
      "ADD --chmod=755 --chown=user {{http}}/dir/file.txt /3/\nADD {{http}}/a.tgz /4/\n" +
      "ADD --unpack=true {{http}}/a.tgz /5/",
    serve: { "/dir/file.txt": "served\n", "/a.tgz": gzipSync(PLAIN_TAR) },
  },
  {
    name: "add-url-mixed",
    dockerfile: "FROM base\nADD local {{http}}/one a.tar {{http}}/two?x=y /m/",
    files: { local: "l", "a.tar": { data: PLAIN_TAR } },
    serve: { "/one": "1", "/two": "2" },
  },
  {
    name: "add-url-checksum",
    dockerfile: "FROM base\nADD --checksum=sha256:" +
      "{{sha256:checked}} {{http}}/f /f",
    serve: { "/f": "checked" },
  },
  {
    name: "add-url-checksum-wrong",
    dockerfile: "FROM base\nADD --checksum=sha256:{{sha256:other}} {{http}}/f /f",
    serve: { "/f": "checked" },
    fails: true,
  },
  {
    name: "add-url-missing",
    dockerfile: "FROM base\nADD {{http}}/nope /f",
    serve: { "/f": "checked" },
    fails: true,
  },
  {
    name: "add-git",
    dockerfile: "FROM base\nADD {{git}} /1\nADD {{git}}#side /2\nADD {{git}}#main:sub /3\n" +
      "ADD {{git}}#v1 /4/\nADD --chown=user --chmod=700 {{git}}#:sub /5",
  },
  {
    name: "add-git-checksum",
    dockerfile: "FROM base\nADD --checksum={{commit}} {{git}} /1",
  },
  {
    name: "add-git-missing-ref",
    dockerfile: "FROM base\nADD {{git}}#nope /1",
    fails: true,
  },
  {
    name: "add-checksum-of-local",
    dockerfile: "FROM base\nADD --checksum=sha256:{{sha256:a}} a /a",
    files: { a: "a" },
    fails: true,
  },
];
