/** `svc auth keys add|list|rm`: the SSH keys that may open sessions. */
import type { EnrolledKey } from "../api/auth.ts";
import { parseDuration } from "../base/duration.ts";
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import { renderTable } from "../base/table.ts";
import { enrolKey, listKeys, removeKey } from "../client/auth_keys.ts";
import type { AUTH_OPTIONS } from "./auth_options.ts";
import type { Invocation } from "./command.ts";
import type { KeyAuth } from "../client/profile/types.ts";
import { connect, openConnection } from "./connect.ts";
import { readInput } from "./input.ts";
import { terminalPrompt } from "./prompt.ts";

type Call = Invocation<typeof AUTH_OPTIONS>;

const USAGE = "usage: svc auth keys add [FILE] | svc auth keys list | svc auth keys rm NAME...";

function wrong(why: string): SvcError {
  return new SvcError("usage", `Cannot run auth: ${why}`, { help: USAGE });
}

/** The public key in a file. Throws for a private key, which must never leave the machine. */
async function publicKey(path: string, io: Call["io"]): Promise<string> {
  const text = await readInput(path, "the public key", io);
  if (/PRIVATE KEY-----/.test(text)) {
    throw new SvcError("argument_invalid", `Cannot enrol ${path}: it holds a private key`, {
      help: "name the .pub file beside it",
    });
  }
  const [line, ...more] = text.split("\n").filter((line) => !/^\s*(#|$)/.test(line));
  if (line !== undefined && more.length === 0) return line.trim();
  throw new SvcError("argument_invalid", `Cannot enrol ${path}: it holds not exactly one key`);
}

function expiry(text: string): string {
  const absolute = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : NaN;
  if (!Number.isNaN(absolute)) return new Date(absolute).toISOString();
  try {
    return new Date(Date.now() + parseDuration(text)).toISOString();
  } catch (cause) {
    throw new SvcError(
      "argument_invalid",
      `Cannot read --expires ${JSON.stringify(text)}: expected a duration such as 720h or a time`,
      { cause },
    );
  }
}

const ROWS = ["FINGERPRINT", "TYPE", "NAME", "SCOPE", "SOURCE", "EXPIRES"];

const row = (key: EnrolledKey) => [
  key.fingerprint,
  key.type,
  key.name,
  key.scope,
  key.source,
  key.expiresAt ?? "never",
];

/** The key of the context's `key-auth`, and its name there; without a name, its fingerprint. */
async function ownKey(
  { io, env }: Call,
  settings: KeyAuth | undefined,
): Promise<{ publicKey: string; name: string }> {
  if (!settings) throw wrong("add takes one FILE, for the context has no key-auth");
  const { publicKeyOf } = await import("../client/credentials/signer.ts");
  const { fingerprint, parsePublicKey } = await import("../client/ssh/public_key.ts");
  const prompt = terminalPrompt(io, env);
  const publicKey = await publicKeyOf({ settings, env, prompt, signal: io.signal });
  return {
    publicKey,
    name: settings.name ?? fingerprint(parsePublicKey(publicKey)!.blob),
  };
}

async function add(invocation: Call, files: string[]): Promise<void> {
  const { io, values } = invocation;
  if (files.length > 1) throw wrong("add takes one FILE");
  const { client, target } = await openConnection(invocation);
  const own = files.length === 0 ? await ownKey(invocation, target.keyAuth) : undefined;
  const key = await enrolKey(client, {
    publicKey: own?.publicKey ?? await publicKey(files[0], io),
    name: values.name ?? own?.name,
    scope: values.scope,
    expiresAt: values.expires === undefined ? undefined : expiry(values.expires),
  });
  await io.stdout.write(
    values.output === "json" ? JSON.stringify(key) + "\n" : `${key.fingerprint} ${key.name}\n`,
  );
}

async function list(invocation: Call, words: string[]): Promise<void> {
  const { io, values } = invocation;
  if (words.length > 0) throw wrong("list takes no argument");
  const { keys } = await listKeys(await connect(invocation));
  await io.stdout.write(
    values.output === "json"
      ? keys.map((key) => JSON.stringify(key) + "\n").join("")
      : renderTable(ROWS, keys.map(row)),
  );
}

/** Removes keys by fingerprint, or by a name that only one key has. */
async function remove(invocation: Call, names: string[]): Promise<void> {
  if (names.length === 0) throw wrong("rm takes a NAME or fingerprint");
  const client = await connect(invocation);
  const { keys } = await listKeys(client);
  for (const name of names) {
    const found = keys.filter((key) => key.fingerprint === name || key.name === name);
    if (found.length > 1) {
      throw new SvcError(
        "argument_invalid",
        `Cannot remove ${JSON.stringify(name)}: ${found.length} keys have the name`,
        { help: `name the fingerprint: ${found.map((key) => key.fingerprint).join(", ")}` },
      );
    }
    await removeKey(client, found[0]?.fingerprint ?? name);
    await invocation.io.stdout.write(`${found[0]?.fingerprint ?? name}\n`);
  }
}

const VERBS = { add, list, rm: remove };

export async function run(invocation: Call): Promise<number> {
  const [subject, verb = "", ...rest] = invocation.positionals;
  if (subject !== "keys") {
    throw wrong(`${JSON.stringify(subject)} is not keys${suggestion(subject, ["keys"])}`);
  }
  if (!Object.hasOwn(VERBS, verb)) {
    const names = Object.keys(VERBS);
    throw wrong(
      `${JSON.stringify(verb)} is not one of ${names.join(", ")}${suggestion(verb, names)}`,
    );
  }
  const { name, scope, expires } = invocation.values;
  if (verb !== "add" && [name, scope, expires].some((value) => value !== undefined)) {
    throw wrong("--name, --scope and --expires belong to keys add");
  }
  await VERBS[verb as keyof typeof VERBS](invocation, rest);
  return 0;
}
