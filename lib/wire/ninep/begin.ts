/**
 * Files and folders that are made without waiting for the answer. The client gives them their numbers, so they are
 * known as what they will be; whatever is sent for them fails where they could not be made. For servers that work in
 * order ({@linkcode T.ORDER}).
 */
import { ERRNO, FileError } from "../files/stat.ts";
import { OPEN } from "../files/node.ts";
import { QID, type Reader, T, type Writer } from "./messages.ts";
import type { AheadFile } from "./remote_file.ts";
import { GROUP, RemoteNode } from "./remote_node.ts";

export interface Begun {
  node: RemoteNode;
  /** Throws where it could not be made. */
  made: Promise<void>;
}

/** `done`: called when the answer comes, before whatever comes after it. */
export interface Wanted {
  name: string;
  mode: number;
  number: bigint;
  done: () => void;
}

function begun(folder: RemoteNode, fid: number, type: number, number: bigint): RemoteNode {
  return new RemoteNode(folder.client, fid, { type, version: 0, path: number }, true, folder.ahead);
}

const answer = ({ number, done }: Wanted) => (reply: Reader) => {
  if (reply.qid().path !== number) return false;
  done();
  return true;
};

/** `stale`: whoever did not wish to be the first has to open what somebody else has made. */
async function sure(made: Promise<boolean>, stale = false): Promise<void> {
  const there = (error: unknown) => stale && (error as FileError).errno === ERRNO.EEXIST;
  const right = await made.catch((error) => {
    throw there(error) ? new FileError(ERRNO.ESTALE, "another one was made meanwhile") : error;
  });
  if (!right) throw new FileError(ERRNO.EIO, "it has another number");
}

/** A new file, opened; what is there already stays, and is an error. */
export function beginFile(
  folder: RemoteNode,
  flags: number,
  wanted: Wanted,
): Begun & { file: AheadFile } {
  const { client } = folder;
  const ahead = folder.ahead!;
  const { name, mode, number } = wanted;
  const how = ahead.flags(flags) | OPEN.EXCL;
  ahead.altered();
  const { fid } = client.begin(folder.fid, [], true);
  const fill = (request: Writer) =>
    request.u32(fid).text(name).u32(how).u32(mode).u32(GROUP).u64(number);
  const asked = client.ask(T.LCREATE, fill, answer(wanted));
  const made = sure(asked, (flags & OPEN.EXCL) === 0).finally(() => ahead.altered());
  const opening = ahead.opening(client, { flags });
  opening.follow(fid);
  const node = begun(folder, client.begin(fid, [], true).fid, QID.FILE, number);
  const file = opening.file(fid, number);
  file.begun(made);
  return { node, file, made };
}

/** A new folder. */
export function beginFolder(folder: RemoteNode, wanted: Wanted): Begun {
  const { client } = folder;
  const ahead = folder.ahead!;
  const { name, mode, number } = wanted;
  const fid = client.takeFid();
  ahead.altered();
  const fill = (request: Writer) =>
    request.u32(folder.fid).text(name).u32(mode).u32(GROUP).u64(number).u32(fid);
  const made = sure(client.ask(T.MKDIR, fill, answer(wanted))).finally(() => ahead.altered());
  return { node: begun(folder, fid, QID.DIR, number), made };
}
