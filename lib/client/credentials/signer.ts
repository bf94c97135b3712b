/** Proof that the caller has an SSH key: by a key file, or by an agent (SPEC.md, table KeyAuth). */
import { createHash } from "node:crypto";
import { Buffer } from "node:buffer";
import { SvcError } from "../../base/errors.ts";
import type { KeyAuth } from "../profile/types.ts";
import type { Prompt } from "../prompt.ts";
import { agentKeys, agentSign } from "../ssh/agent.ts";
import { loadKey, publicKeyBeside, signWithKey } from "../ssh/key.ts";
import { fingerprint, keyType, string, uint32 } from "../../wire/ssh/packing.ts";

export interface Signer {
  /** `SHA256:…` */
  fingerprint: string;
  /** A line of OpenSSH's public-key form, without a comment. */
  publicKey: string;
  /** An armoured SSHSIG of the message. */
  sign(message: string, namespace: string): Promise<string>;
}

export interface SignerOptions {
  settings: KeyAuth;
  env: Readonly<Record<string, string | undefined>>;
  prompt: Prompt;
  signal?: AbortSignal;
}

const MAGIC = Buffer.from("SSHSIG");
const HASH = "sha512";

/** What is signed (PROTOCOL.sshsig section 3). */
function signedData(message: string, namespace: string): Buffer {
  const digest = createHash(HASH).update(message).digest();
  return Buffer.concat([MAGIC, string(namespace), string(""), string(HASH), string(digest)]);
}

/** The armoured form (PROTOCOL.sshsig sections 1 and 2). */
export function armour(publicKey: Uint8Array, namespace: string, signature: Uint8Array): string {
  const blob = Buffer.concat([
    MAGIC,
    uint32(1),
    string(publicKey),
    string(namespace),
    string(""),
    string(HASH),
    string(signature),
  ]);
  const lines = blob.toString("base64").match(/.{1,70}/g)!.join("\n");
  return `-----BEGIN SSH SIGNATURE-----\n${lines}\n-----END SSH SIGNATURE-----\n`;
}

function signer(blob: Buffer, sign: (data: Uint8Array) => Promise<Buffer>): Signer {
  return {
    fingerprint: fingerprint(blob),
    publicKey: `${keyType(blob)} ${blob.toString("base64")}`,
    sign: async (message, namespace) =>
      armour(blob, namespace, await sign(signedData(message, namespace))),
  };
}

function agentPath(env: SignerOptions["env"]): string | undefined {
  if (env.SSH_AUTH_SOCK) return env.SSH_AUTH_SOCK;
  return Deno.build.os === "windows" ? "\\\\.\\pipe\\openssh-ssh-agent" : undefined;
}

async function fromAgent(
  wanted: string,
  { env, signal }: SignerOptions,
): Promise<Signer | undefined> {
  const path = agentPath(env);
  if (!path) return undefined;
  const keys = await agentKeys({ path, signal });
  const key = keys.find(({ blob }) => fingerprint(blob) === wanted);
  return key && signer(key.blob, (data) => agentSign({ path, signal }, key.blob, data));
}

const same = (a: string, b: string) => a.replace(/=+$/, "") === b.replace(/=+$/, "");

/**
 * The key's fingerprint without unlocking it, for the cache: the pinned one, or that of the public half beside
 * the file. undefined: only the private key itself can tell.
 */
export async function quietFingerprint(settings: KeyAuth): Promise<string | undefined> {
  const { "key-fingerprint": pinned, "identity-file": file } = settings;
  if (pinned) return pinned.replace(/=+$/, "");
  const blob = file === undefined ? undefined : await publicKeyBeside(file);
  return blob && fingerprint(blob);
}

/**
 * Throws for a security key's file: it holds only a handle. Such a key signs through an agent, or through ssh.
 */
async function refuseHandle(file: string): Promise<void> {
  const beside = await publicKeyBeside(file);
  if (!beside || !keyType(beside).startsWith("sk-")) return;
  throw new SvcError(
    "prerequisite_missing",
    `Cannot use identity file ${file}: it belongs to a FIDO security key, which signs through an SSH agent`,
    { help: "ssh-add it, and set SSH_AUTH_SOCK" },
  );
}

/**
 * The public key; does not unlock the key if the public half lies beside the file. Throws as `openSigner` does.
 */
export async function publicKeyOf(options: SignerOptions): Promise<string> {
  const file = options.settings["identity-file"];
  const blob = file === undefined ? undefined : await publicKeyBeside(file);
  if (blob) return `${keyType(blob)} ${blob.toString("base64")}`;
  return (await openSigner(options)).publicKey;
}

/** Throws `config_invalid`, `unauthorized` or `prerequisite_missing` where there is no such key. */
export async function openSigner(options: SignerOptions): Promise<Signer> {
  const { settings, prompt } = options;
  const { "identity-file": file, "key-fingerprint": pinned } = settings;
  if (file === undefined) {
    if (!agentPath(options.env)) {
      throw new SvcError(
        "prerequisite_missing",
        `Cannot use the key ${pinned}: there is no SSH agent`,
        {
          help: "set SSH_AUTH_SOCK, or name the key's file in key-auth.identity-file",
        },
      );
    }
    const found = await fromAgent(pinned!.replace(/=+$/, ""), options);
    if (found) return found;
    throw new SvcError(
      "unauthorized",
      `Cannot use the key ${pinned}: the SSH agent does not hold it`,
      {
        help: "ssh-add it, or name its file in key-auth.identity-file",
      },
    );
  }
  // If the agent holds the same key, nobody has to type its passphrase.
  const quiet = await quietFingerprint(settings);
  const held = quiet && await fromAgent(quiet, options).catch(() => undefined);
  if (held) return held;
  await refuseHandle(file);
  const key = await loadKey(file, prompt);
  const found = signer(key.getPublicSSH(), (data) => Promise.resolve(signWithKey(key, data)));
  if (pinned === undefined || same(found.fingerprint, pinned)) return found;
  throw new SvcError(
    "config_invalid",
    `Cannot use identity file ${file}: its key is ${found.fingerprint}, not ${pinned}`,
    { help: "correct key-auth.key-fingerprint or key-auth.identity-file" },
  );
}
