/** The services of a build's session, which docker's client answers (moby/buildkit, session/*). */
import { field, method } from "../../wire/grpc/method.ts";
import type { Schema } from "../../wire/grpc/protobuf.ts";

export interface BytesMessage {
  data: Uint8Array;
}
const BYTES: Schema = { data: field(1, "bytes") };

/** An entry of a folder (fsutil). `mode` has Go's bits. */
export interface Stat {
  path: string;
  mode: number;
  size: number;
  /** Nanoseconds since 1970; rounded, as numbers of this size are. */
  modTime: number;
  linkname: string;
}
const STAT: Schema = {
  path: field(1),
  mode: field(2, "uint"),
  size: field(5, "uint"),
  modTime: field(6, "uint"),
  linkname: field(7),
};

export const PACKET = { stat: 0, request: 1, data: 2, end: 3, error: 4 } as const;

/** One packet of a copy of a folder, in either direction. */
export interface Packet {
  /** Of {@linkcode PACKET}. */
  type: number;
  /** Absent: there are no more. */
  stat?: Stat;
  id: number;
  data: Uint8Array;
}
const PACKETS: Schema = {
  type: field(1, "uint"),
  stat: field(2, STAT),
  id: field(3, "uint"),
  data: field(4, "bytes"),
};

/** A folder of the client's, which metadata names. */
export const ReadFolder = method<Partial<Packet>, Packet>(
  "moby.filesync.v1.FileSync/DiffCopy",
  PACKETS,
  PACKETS,
);

/** An archive that the client was given on its standard input. */
export const ReadUpload = method<BytesMessage, BytesMessage>(
  "moby.upload.v1.Upload/Pull",
  BYTES,
  BYTES,
);

export const GetSecret = method<{ id: string }, BytesMessage>(
  "moby.buildkit.secrets.v1.Secrets/GetSecret",
  { id: field(1) },
  BYTES,
);

export const CheckAgent = method<{ id: string }, Record<never, never>>(
  "moby.sshforward.v1.SSH/CheckAgent",
  { id: field(1) },
);

export const ForwardAgent = method<BytesMessage, BytesMessage>(
  "moby.sshforward.v1.SSH/ForwardAgent",
  BYTES,
  BYTES,
);

export const Credentials = method<{ host: string }, { username: string; secret: string }>(
  "moby.filesync.v1.Auth/Credentials",
  { host: field(1) },
  { username: field(1), secret: field(2) },
);
