/** `svc deploy`: a spec, an image, or both, made to run. */
import { expandPort } from "../api/deploy_spec_shorthand.ts";
import type { ApplyResult } from "../api/deployment.ts";
import type { EgressSpec } from "../api/egress.ts";
import { SvcError } from "../base/errors.ts";
import type { Io } from "../base/terminal.ts";
import { applyDeployment, type SpecBody } from "../client/deployments.ts";
import { formatReference, parseReference } from "../oci/reference.ts";
import type { Invocation } from "./command.ts";
import { openConnection, target } from "./connect.ts";
import { withCertificates } from "./deploy_certificates.ts";
import { withCredentials } from "./deploy_credentials.ts";
import { egressFlags, laidOver } from "./deploy_egress.ts";
import { withLogins } from "./deploy_logins.ts";
import { readInput } from "./input.ts";
import type { DEPLOY_OPTIONS } from "./options.ts";
import { parsePairs } from "./pairs.ts";
import { formatIngress, formatPort } from "./ps.ts";

type Values = Invocation<typeof DEPLOY_OPTIONS>["values"];
type Json = Record<string, unknown>;

/** The image's last path component: "registry/team/app:v1" deploys as "app". */
function nameOfImage(image: string): string {
  return parseReference(image).repository.split("/").at(-1)!;
}

function publishedPorts(texts: readonly string[] = []): unknown[] {
  return texts.flatMap((text) => {
    try {
      return expandPort(text);
    } catch (cause) {
      throw new SvcError(
        "argument_invalid",
        `Cannot read --publish ${JSON.stringify(text)}: ${(cause as Error).message}`,
        { cause },
      );
    }
  });
}

/** Adds the profile's registry to an image name without one; an invalid name is left for the check. */
function located(image: unknown, host: string | undefined): unknown {
  if (host === undefined || typeof image !== "string") return image;
  try {
    return formatReference({ registry: host, ...parseReference(image) });
  } catch {
    return image;
  }
}

interface Changes {
  values: Values;
  env: Record<string, string>;
  /** Registry for image names that have none. */
  host?: string;
  egress?: EgressSpec;
  /** The caller's environment. */
  own: Invocation["env"];
}

/** Applies the changes to an unchecked document; anything but a mapping is left for the check. */
function overlay(document: unknown, { values, env, host, ...rest }: Changes): unknown {
  if (typeof document !== "object" || document === null || Array.isArray(document)) return document;
  const spec: Json = { ...document };
  if (values.name !== undefined) spec.name = values.name;
  if (values.image !== undefined) spec.image = values.image;
  if (spec.image !== undefined) spec.image = located(spec.image, host);
  const ports = publishedPorts(values.publish);
  if (ports.length > 0) spec.ports = [...Array.isArray(spec.ports) ? spec.ports : [], ...ports];
  const egress = laidOver(spec.egress, rest.egress, rest.own);
  if (egress !== undefined) spec.egress = egress;
  const pairs = Object.entries(env);
  if (pairs.length > 0) {
    spec.env = Array.isArray(spec.env)
      ? [...spec.env, ...pairs.map(([key, value]) => `${key}=${value}`)]
      : { ...spec.env as Json | undefined, ...env };
  }
  return spec;
}

/**
 * Reads the spec. Without changes by flags the file's text goes to the server unread: checking it here too
 * would load the schema library, and the server reports the same errors.
 */
async function readSpec(
  invocation: Invocation<typeof DEPLOY_OPTIONS>,
  host: string | undefined,
): Promise<SpecBody> {
  const { values, positionals: [positional], io } = invocation;
  const { file, image = positional } = values;
  if (positional !== undefined && (file !== undefined || values.image !== undefined)) {
    throw new SvcError("usage", `Cannot deploy ${positional}: the image is given twice`, {
      help: "write `svc deploy IMAGE`, or -f SPEC with --image IMAGE",
    });
  }
  const env = parsePairs(values.env, "--env", invocation.env);
  const egress = await egressFlags(values, io);
  const changes = { env, host, egress, own: invocation.env };
  if (file !== undefined) {
    const text = await readInput(file, "deployment spec", io);
    const source = file === "-" ? "standard input" : file;
    const { name, publish = [] } = values;
    const changed = name !== undefined || values.image !== undefined || publish.length > 0 ||
      Object.keys(env).length > 0 || host !== undefined || egress !== undefined ||
      // It may be for this machine to complete and to decide: its proxies, its part in the routes.
      text.includes("egress");
    if (!changed) return { text, source };
    const { parseDeploySpec } = await import("../api/deploy_spec_parse.ts");
    const amend = (document: unknown) => overlay(document, { values, ...changes });
    const spec = parseDeploySpec(text, { file: source, amend });
    return { name: spec.name, spec };
  }
  if (image === undefined) {
    throw new SvcError("usage", "Cannot deploy: neither a spec nor an image is given", {
      help: "write `svc deploy -f SPEC` or `svc deploy IMAGE`",
    });
  }
  const name = values.name ?? nameOfImage(image);
  return { name, spec: overlay({ name, image }, { values: { ...values, image }, ...changes }) };
}

const DONE = { created: "is deployed", replaced: "is replaced", unchanged: "is unchanged" };

async function report(io: Io, { action, deployment }: ApplyResult): Promise<void> {
  for (const warning of deployment.warnings) await io.stderr.write(`svc: warning: ${warning}\n`);
  const places = [
    ...deployment.ports.map(formatPort),
    ...(deployment.ingress ?? []).map(formatIngress),
  ].join(", ");
  await io.stdout.write(`${deployment.name} ${DONE[action]}${places ? `; ${places}` : ""}\n`);
}

/** Throws for flags that need a session where none is opened. */
function requireSession({ values, sources }: Invocation<typeof DEPLOY_OPTIONS>): void {
  const flags = [
    ...[sources?.conduit, sources?.viaServer],
    ...[values.quiet ? "--quiet" : undefined, values.mount?.length ? "--mount" : undefined],
  ];
  const flag = flags.find((source) => source?.startsWith("-"));
  if (flag === undefined) return;
  throw new SvcError("usage", `Cannot use ${flag}: it is for sessions`, {
    help: "write `svc deploy --session`, or leave it out",
  });
}

export async function run(invocation: Invocation<typeof DEPLOY_OPTIONS>): Promise<number> {
  const { io, values } = invocation;
  if (!values.session) requireSession(invocation);
  const found = await target(invocation);
  const spec = await readSpec(invocation, found.registryHost);
  const json = values.output === "json";
  const show = async (result: ApplyResult) => {
    if (json) await io.stdout.write(JSON.stringify({ type: "result", result }) + "\n");
    else await report(io, result);
  };
  if (values.session && values.detach) {
    const { runDetached } = await import("./deploy_detached.ts");
    return await runDetached(invocation, found, spec, show);
  }
  if (values.session) {
    const { runSession } = await import("./deploy_session.ts");
    return await runSession(invocation, found, spec, show);
  }
  const { client } = await openConnection(invocation, found);
  const warnings: Promise<void>[] = [];
  const { body: kept } = await withCredentials(spec, {
    ...{ flags: values.credential ?? [], session: false, env: invocation.env },
    ...{ notice: () => {}, signal: io.signal },
  });
  const certified = await withCertificates(kept, {
    ...{ target: found, client },
    warn: (text) => void warnings.push(io.stderr.write(`svc: warning: ${text}\n`)),
  });
  await Promise.all(warnings);
  const body = await withLogins(certified, { client, env: invocation.env, io });
  const result = await applyDeployment(
    client,
    body,
    (message) =>
      json
        ? io.stdout.write(JSON.stringify({ type: "progress", message }) + "\n")
        : io.stderr.write(`${message}\n`),
  );
  await show(result);
  return 0;
}
