/** `svc config VERB`: the connection profiles; needs no server. */
import { SvcError } from "../base/errors.ts";
import { renderTable } from "../base/table.ts";
import { suggestion } from "../base/nearest.ts";
import { readProfile } from "../client/profile/file.ts";
import { requireProfilePath } from "../client/profile/location.ts";
import { absolutePaths } from "../client/profile/paths.ts";
import { redactContext, redactProfile } from "../client/profile/redact.ts";
import type { Context, Profile } from "../client/profile/types.ts";
import { deleteContext, setContext, unknownContext, useContext } from "./config/edit.ts";
import type { Invocation } from "./command.ts";
import { target } from "./connect.ts";

type Values = Invocation["values"] & { raw?: boolean; export?: boolean; merge?: boolean };

interface Call {
  invocation: Invocation;
  values: Values;
  path: string;
  name?: string;
}

/** The way to the server, in a word or two. */
function endpoint(context: Context): string {
  const { server, "ssh-tunnel": ssh, "port-forward": kube } = context;
  if (server) return server;
  if (ssh) return `ssh:${ssh.addr}`;
  return kube ? `service:${kube.namespace ? `${kube.namespace}/` : ""}${kube.service}` : "";
}

function auth(context: Context): string {
  const kinds = [
    context["key-auth"] && "key",
    context["kube-auth"] && "kube",
    context.token !== undefined && "token",
    context.tls?.["client-cert"] && "certificate",
  ].filter((kind) => kind);
  return kinds.join(", ") + (context["token-exchange"]?.enabled ? " (exchanged)" : "");
}

async function getContexts({ invocation: { io, values }, path }: Call): Promise<void> {
  const profile = await readProfile(path);
  const rows = Object.entries(profile.contexts).map(([name, context]) => ({
    name,
    current: name === profile["current-context"],
    endpoint: endpoint(context),
    auth: auth(context),
  }));
  await io.stdout.write(
    values.output === "json" ? rows.map((row) => JSON.stringify(row) + "\n").join("") : renderTable(
      ["CURRENT", "NAME", "SERVER", "AUTH"],
      rows.map((row) => [row.current ? "*" : "", row.name, row.endpoint, row.auth]),
    ),
  );
}

async function currentContext({ invocation: { io }, path }: Call): Promise<void> {
  const current = (await readProfile(path))["current-context"];
  if (!current) {
    throw new SvcError("not_found", "Cannot tell the current context: none is selected", {
      help: "select one with `svc config use-context NAME`",
    });
  }
  await io.stdout.write(current + "\n");
}

async function show(io: Invocation["io"], json: boolean, document: unknown): Promise<void> {
  if (json) return await io.stdout.write(JSON.stringify(document) + "\n");
  const { stringify } = await import("../client/yaml.ts");
  await io.stdout.write(stringify(document, { lineWidth: 0 }));
}

async function view({ invocation, values, path, name }: Call): Promise<void> {
  const { io } = invocation;
  const json = values.output === "json";
  if (values.merge) {
    const { settings } = await target(invocation);
    return await show(io, json, values.raw ? settings : redactContext(settings));
  }
  const profile = await readProfile(path);
  const wanted = name ?? values.context ?? (values.export ? profile["current-context"] : undefined);
  if (wanted !== undefined && !Object.hasOwn(profile.contexts, wanted)) {
    throw unknownContext(wanted, profile, "Cannot show context");
  }
  if (values.export) {
    if (wanted === undefined) {
      throw new SvcError("usage", "Cannot export: no context is selected", {
        help: "usage: svc config view --export NAME",
      });
    }
    const { dirname, resolve } = await import("node:path");
    const context = absolutePaths(
      profile.contexts[wanted],
      dirname(resolve(path)),
      invocation.env.HOME,
    );
    return await show(io, json, { "current-context": wanted, contexts: { [wanted]: context } });
  }
  const shown: Profile = wanted === undefined
    ? profile
    : { ...profile, contexts: { [wanted]: profile.contexts[wanted] } };
  await show(io, json, values.raw ? shown : redactProfile(shown));
}

function needName({ name }: Call, verb: string): string {
  if (name) return name;
  throw new SvcError("usage", `Cannot run config ${verb}: NAME is missing`, {
    help: `usage: svc config ${verb} NAME`,
  });
}

const VERBS: Record<string, (call: Call) => Promise<void>> = {
  "get-contexts": getContexts,
  "current-context": currentContext,
  view,
  async "use-context"(call) {
    const name = needName(call, "use-context");
    await useContext(call.path, name);
    await call.invocation.io.stderr.write(`selected context ${name}\n`);
  },
  async "set-context"(call) {
    const name = needName(call, "set-context");
    const { outcome } = await setContext(call.path, name, call.invocation);
    await call.invocation.io.stderr.write(`${outcome} context ${name} in ${call.path}\n`);
  },
  async "delete-context"(call) {
    const name = needName(call, "delete-context");
    const selected = await deleteContext(call.path, name);
    await call.invocation.io.stderr.write(
      `deleted context ${name}${selected ? "; no context is selected now" : ""}\n`,
    );
  },
};

const CONFIG_VERBS = Object.keys(VERBS);

export async function run(invocation: Invocation): Promise<number> {
  const [verb, name] = invocation.positionals;
  const act = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined;
  if (!act) {
    throw new SvcError(
      "usage",
      `Cannot run config ${verb}: unknown verb${suggestion(verb, CONFIG_VERBS)}`,
      { help: `it is one of ${CONFIG_VERBS.join(", ")}` },
    );
  }
  const { env, values } = invocation;
  const path = requireProfilePath({ os: Deno.build.os, env, explicit: values.configFile });
  await act({ invocation, values: values as Values, path, ...(name && { name }) });
  return 0;
}
