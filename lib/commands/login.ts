/** `svc login`: checks a credential and keeps it where the next command finds it. */
import { resolve } from "node:path";
import type { ServerInfo } from "../api/info.ts";
import { SvcError } from "../base/errors.ts";
import type { Connection } from "../client/connection.ts";
import { storeLogin } from "../client/docker_login.ts";
import { editProfile, readProfile } from "../client/profile/file.ts";
import { requireProfilePath } from "../client/profile/location.ts";
import type { Context } from "../client/profile/types.ts";
import type { Target } from "../client/resolve.ts";
import type { Invocation } from "./command.ts";
import { openConnection, target } from "./connect.ts";
import type { LOGIN_OPTIONS } from "./login_options.ts";
import { terminalPrompt } from "./prompt.ts";

type LoginInvocation = Invocation<typeof LOGIN_OPTIONS>;

/** The fields of the context that the flags set; undefined: none. */
async function wanted(invocation: LoginInvocation): Promise<Partial<Context> | undefined> {
  const { values, io } = invocation;
  const { withToken, identityFile, keyFingerprint, scope, ttl } = values;
  const key = identityFile !== undefined || keyFingerprint !== undefined;
  if (withToken !== undefined && key) {
    throw new SvcError("usage", "Cannot log in with --token and a key: they exclude each other");
  }
  if (key) {
    return {
      "key-auth": {
        ...(identityFile !== undefined && { "identity-file": resolve(identityFile) }),
        ...(keyFingerprint !== undefined && { "key-fingerprint": keyFingerprint }),
        ...(scope !== undefined && { scope }),
        ...(ttl !== undefined && { ttl }),
      },
    };
  }
  if (withToken === undefined) return undefined;
  const token = withToken === "-"
    ? (await new Response(io.stdin.readable as BodyInit).text()).trim()
    : withToken;
  if (token === "") throw new SvcError("argument_invalid", "Cannot log in: the token is empty");
  return { token };
}

/**
 * Hosts in image names of the server's registry: those that the server reports, and the host of its URL unless
 * a tunnel leads there.
 */
export async function registryHosts({ client, target }: Connection): Promise<string[]> {
  const { registryHost, server, transport } = target;
  const { registry } = registryHost
    ? { registry: registryHost }
    : await client.json("GET /info") as Partial<ServerInfo>;
  const own = transport.kind === "direct" || !registry ? [new URL(server).host] : [];
  return [...new Set([...(registry ? [registry.replace(/^https?:\/\//, "")] : []), ...own])];
}

/** The context that keeps the login: the current one if it names this server, else a context named after it. */
async function keep(path: string, found: Target, fields: Partial<Context>): Promise<string> {
  const { host } = new URL(found.server);
  let name = host;
  await editProfile(path, (document, profile) => {
    const selected = found.context;
    const own = selected !== undefined &&
      (found.source === `context ${selected}` ||
        profile.contexts[selected].server === found.server);
    if (own) name = selected;
    const base = ["contexts", name];
    if (!Object.hasOwn(profile.contexts, name)) {
      document.setIn(base, document.createNode({ server: found.server }));
      if (!profile["current-context"]) document.setIn(["current-context"], name);
    }
    for (const field of ["token", "key-auth", "kube-auth"]) document.deleteIn([...base, field]);
    for (const [field, value] of Object.entries(fields)) {
      document.setIn([...base, field], document.createNode(value));
    }
  });
  return name;
}

async function askToken(invocation: LoginInvocation, server: string): Promise<string> {
  const token = await terminalPrompt(invocation.io, invocation.env).secret(`token for ${server}: `);
  if (token) return token;
  throw new SvcError("unauthorized", `Cannot log in to ${server}: there is no credential`, {
    help: "give --token - with the token on standard input, --identity-file or --key-fingerprint",
  });
}

function withFields(invocation: LoginInvocation, found: Target, fields: Partial<Context>): Target {
  const key = fields["key-auth"];
  return {
    ...found,
    credential: key
      ? { kind: "key", settings: key }
      : { kind: "token", token: fields.token!, source: "svc login" },
    ...(key && { exchange: undefined }),
    ...(invocation.values.context && { context: invocation.values.context }),
  };
}

export async function run(invocation: LoginInvocation): Promise<number> {
  const { io, env, values } = invocation;
  let found = await target(invocation);
  let fields = await wanted(invocation);
  if (!fields && found.credential.kind === "none") {
    const open = await openConnection(invocation, found);
    const free = await open.client.json("GET /info").then(() => true, (error) => {
      if (error instanceof SvcError && error.code === "unauthorized") return false;
      throw error;
    });
    if (!free) fields = { token: await askToken(invocation, found.server) };
  }
  if (fields) found = withFields(invocation, found, fields);
  const connection = await openConnection(invocation, found);
  const info: Partial<ServerInfo> = await connection.client.json("GET /info");
  if (fields) {
    const path = requireProfilePath({ os: Deno.build.os, env, explicit: values.configFile });
    const before = (await readProfile(path)).contexts;
    const name = await keep(path, found, fields);
    const made = Object.hasOwn(before, name) ? "changed" : "made";
    await io.stderr.write(`${made} context ${name} in ${path}\n`);
  }
  const who = info.identity?.subject;
  await io.stdout.write(`logged in to ${found.server}${who ? ` as ${who}` : ""}\n`);
  if (!values.docker) return 0;
  const password = await connection.credentials.token();
  if (!password) {
    await io.stderr.write("svc: warning: the server asks for no login, so docker gets none\n");
    return 0;
  }
  for (const host of await registryHosts(connection)) {
    const places = await storeLogin({ host, username: "svc", password }, env);
    await io.stderr.write(`wrote the login for ${host} to ${places.join(" and ")}\n`);
  }
  if (found.credential.kind === "key" || found.exchange) {
    await io.stderr.write("svc: note: it is a short-lived one; svc login --docker renews it\n");
  }
  return 0;
}
