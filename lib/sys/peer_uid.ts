/** Who is at the other end of a Unix socket: the kernel's word (SO_PEERCRED), which the other end cannot change. */
import type { Socket } from "node:net";
import { ownDescriptor } from "../base/node_hooks.ts";
import { libc } from "./libc.ts";

const SOL_SOCKET = 1;
const SO_PEERCRED = 17;
/** `struct ucred`: process, user, group. */
const UCRED_BYTES = 12;

/** The user id of the peer when it connected. Linux only. Throws where `fd` is no Unix socket. */
export function peerUid(fd: number): number {
  const credentials = new Uint32Array(UCRED_BYTES / 4);
  const size = new Uint32Array([UCRED_BYTES]);
  if (libc().getsockopt(fd, SOL_SOCKET, SO_PEERCRED, credentials, size) !== 0) {
    throw new Error("the socket has no peer");
  }
  return credentials[1];
}

/**
 * The user at the other end; undefined where the system does not tell, and the socket's permissions are what counts.
 * Throws where the runtime does not: nobody is let in unseen.
 */
export function uidOfPeer(socket: Socket): number | undefined {
  if (Deno.build.os !== "linux") return undefined;
  return peerUid(ownDescriptor(socket) ?? -1);
}
