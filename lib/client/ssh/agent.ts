/** The SSH agent's protocol (draft-miller-ssh-agent), as much of it as a client needs to prove itself. */
import { Buffer } from "node:buffer";
import { connect } from "node:net";
import { SvcError } from "../../base/errors.ts";
import { Reader, string, uint32 } from "../../wire/ssh/packing.ts";

const REQUEST_IDENTITIES = 11;
const IDENTITIES_ANSWER = 12;
const SIGN_REQUEST = 13;
const SIGN_RESPONSE = 14;

/** The flag for RSA signatures with SHA-512: servers refuse those with SHA-1, the default. */
const RSA_SHA2_512 = 4;

const MAX_ANSWER = 1 << 20;
const PATIENCE_MS = 120_000;

export interface AgentKey {
  blob: Buffer;
  comment: string;
}

export interface AgentOptions {
  /** `SSH_AUTH_SOCK`; on Windows a named pipe. */
  path: string;
  signal?: AbortSignal;
}

function unreachable(why: string, cause?: unknown): SvcError {
  return new SvcError("prerequisite_missing", `Cannot use the SSH agent: ${why}`, {
    cause,
    help: "start an agent and ssh-add the key, or name the key's file in identity-file",
  });
}

function ask({ path, signal }: AgentOptions, message: Uint8Array): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    let answer = Buffer.alloc(0);
    const end = (act: () => void) => {
      signal?.removeEventListener("abort", abort);
      socket.destroy();
      act();
    };
    const fail = (why: string, cause?: unknown) => end(() => reject(unreachable(why, cause)));
    const abort = () => end(() => reject(signal!.reason));
    signal?.addEventListener("abort", abort, { once: true });
    // The key may ask its owner for a touch or a confirmation.
    socket.setTimeout(PATIENCE_MS, () => fail("it does not answer"));
    socket.on("error", (error) => fail(`nothing answers at ${path}`, error));
    socket.on("close", () => fail("it closed the connection"));
    socket.on("connect", () => socket.write(string(message)));
    socket.on("data", (data) => {
      answer = Buffer.concat([answer, data as Buffer]);
      if (answer.length < 4) return;
      const length = answer.readUInt32BE();
      if (length > MAX_ANSWER) return fail("its answer is too long");
      if (answer.length >= 4 + length) end(() => resolve(answer.subarray(4, 4 + length)));
    });
  });
}

/** The keys that it holds. Throws `prerequisite_missing`. */
export async function agentKeys(options: AgentOptions): Promise<AgentKey[]> {
  const reader = new Reader(
    await ask(options, Buffer.from([REQUEST_IDENTITIES])),
    "the agent's answer",
  );
  if (reader.byte() !== IDENTITIES_ANSWER) throw unreachable("it does not tell its keys");
  return Array.from({ length: reader.uint32() }, () => ({
    blob: Buffer.from(reader.string()),
    comment: reader.text(),
  }));
}

/** The signature of `data`, as SSH writes signatures. Throws `prerequisite_missing`. */
export async function agentSign(
  options: AgentOptions,
  blob: Uint8Array,
  data: Uint8Array,
): Promise<Buffer> {
  const request = Buffer.concat([
    Buffer.from([SIGN_REQUEST]),
    string(blob),
    string(data),
    uint32(RSA_SHA2_512),
  ]);
  const reader = new Reader(await ask(options, request), "the agent's answer");
  if (reader.byte() !== SIGN_RESPONSE) throw unreachable("it refused to sign with the key");
  return Buffer.from(reader.string());
}
