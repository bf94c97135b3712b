/** An SSH agent in this process that holds keys of files (draft-miller-ssh-agent): it lists them and signs. */
import { Buffer } from "node:buffer";
import { SvcError } from "../../base/errors.ts";
import { connDuplex, type Duplex } from "../../wire/duplex.ts";
import { Reader, string, uint32 } from "../../wire/ssh/packing.ts";
import type { ParsedKey } from "../../wire/ssh/private_key.ts";
import type { ConnectAgent } from "../build_session.ts";
import type { Prompt } from "../prompt.ts";
import { loadKey, type RsaHash, signWithKey } from "./key.ts";

const FAILURE = Buffer.from([5]);
const REQUEST_IDENTITIES = 11;
const IDENTITIES_ANSWER = 12;
const SIGN_REQUEST = 13;
const SIGN_RESPONSE = 14;

/** Flags of a request to sign: which hash an RSA key uses. */
const RSA_SHA2_256 = 2;
const RSA_SHA2_512 = 4;

/** Bytes of a request, at most; data to sign has a few hundred. */
const MAX_REQUEST = 256 * 1024;

function hashOf(flags: number): RsaHash {
  if (flags & RSA_SHA2_512) return "sha512";
  return flags & RSA_SHA2_256 ? "sha256" : "sha1";
}

/** Never throws: an unreadable or refused request is answered with a failure, as by any agent. */
function answerTo(request: Buffer, keys: readonly ParsedKey[]): Buffer {
  try {
    const reader = new Reader(request, "request to the SSH agent");
    switch (reader.byte()) {
      case REQUEST_IDENTITIES:
        return Buffer.concat([
          Buffer.from([IDENTITIES_ANSWER]),
          uint32(keys.length),
          ...keys.flatMap((key) => [string(key.getPublicSSH()), string(key.comment ?? "")]),
        ]);
      case SIGN_REQUEST: {
        const blob = reader.string();
        const data = reader.string();
        const key = keys.find((one) => one.getPublicSSH().equals(blob));
        if (!key) return FAILURE;
        const signature = signWithKey(key, data, hashOf(reader.uint32()));
        return Buffer.concat([Buffer.from([SIGN_RESPONSE]), string(signature)]);
      }
      default:
        return FAILURE;
    }
  } catch {
    return FAILURE;
  }
}

/** A connection to an agent with exactly these keys; keys cannot be added. */
export function keyAgent(keys: readonly ParsedKey[]): Duplex {
  let pending = Buffer.alloc(0);
  const answers: Buffer[] = [];
  let ended = false;
  let changed = Promise.withResolvers<void>();
  const change = () => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  const end = () => {
    ended = true;
    change();
  };
  return {
    async read() {
      while (answers.length === 0 && !ended) await changed.promise;
      return answers.shift();
    },
    write(bytes) {
      pending = Buffer.concat([pending, bytes]);
      while (pending.length >= 4) {
        const length = pending.readUInt32BE();
        if (length > MAX_REQUEST) {
          end();
          return Promise.reject(
            new SvcError(
              "upstream_failed",
              "Cannot answer for the SSH agent: a request is too long",
            ),
          );
        }
        if (pending.length < 4 + length) break;
        answers.push(string(answerTo(pending.subarray(4, 4 + length), keys)));
        pending = pending.subarray(4 + length);
      }
      change();
      return Promise.resolve();
    },
    closeWrite() {
      end();
      return Promise.resolve();
    },
    reset: end,
  };
}

/** Connects to the agent at a socket. */
export const socketAgent = (path: string): ConnectAgent => async () =>
  connDuplex(await Deno.connect({ transport: "unix", path }));

/** An agent with the keys of these files. Throws as `loadKey` does. */
export async function fileAgent(files: readonly string[], prompt: Prompt): Promise<ConnectAgent> {
  const keys: ParsedKey[] = [];
  for (const file of files) keys.push(await loadKey(file, prompt));
  return () => Promise.resolve(keyAgent(keys));
}
