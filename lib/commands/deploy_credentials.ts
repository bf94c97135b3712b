/** The credentials of a deployment: their sources stay here, and the session answers what the server asks. */
import type { CredentialSource, DeploySpec } from "../api/deploy_spec.ts";
import { parseFields } from "../base/csv_fields.ts";
import { SvcError } from "../base/errors.ts";
import type { SessionWatcher } from "../client/deploy_session.ts";
import type { SpecBody } from "../client/deployments.ts";
import type { Environment } from "./command.ts";

export interface CredentialOptions {
  /** The values of --credential. */
  flags: readonly string[];
  /** False: nobody would stay to answer. */
  session: boolean;
  env: Environment;
  /** Of files with relative names; default: the current one. */
  folder?: string;
  /** SVC_GH_BIN. */
  ghBin?: string;
  notice(text: string): void;
  /** Ends what answers under way. */
  signal: AbortSignal;
}

/** A spec whose text has this word is read here: its sources must not leave this machine. */
const WORD = /credentials/;

const misread = (flag: string, why: string) =>
  new SvcError("usage", `Cannot read --credential ${flag.replace(/(?<==)[^,]*/g, "…")}: ${why}`, {
    help: "write --credential name=NAME,backend=KIND,KEY=VALUE,file=PATH[,format=FORMAT], or " +
      "endpoint instead of file",
  });

/** Which words of a flag belong to the delivery, by its first word. */
const DELIVERY: Record<string, string> = {
  "as": "format",
  "env-var": "envVar",
  "value-key": "valueKey",
  "provider": "provider",
  "well-known": "wellKnown",
  "upstream": "upstream",
};

/** `name=aws,backend=aws-sts,roleArn=…,endpoint,provider=aws-imds`: other words are the source's config. */
function parseFlag(flag: string): CredentialSource {
  const source: CredentialSource = { name: "" };
  const config: Record<string, string> = {};
  const delivery: Record<string, string> = {};
  for (const [key, value = ""] of parseFields(flag, "--credential")) {
    if (key === "name" || key === "backend" || key === "ttl") source[key] = value;
    else if (key === "file" || key === "endpoint") {
      if (delivery.kind) throw misread(flag, "it has two deliveries; use a spec for several");
      delivery.kind = key;
      if (key === "file") delivery.path = value;
      else if (value !== "") throw misread(flag, "endpoint has no value");
    } else if (Object.hasOwn(DELIVERY, key)) delivery[DELIVERY[key]] = value;
    else config[key] = value;
  }
  if (source.name === "") throw misread(flag, "it has no name");
  if (!delivery.kind) throw misread(flag, "it has no delivery: file=PATH or endpoint");
  return {
    ...source,
    ...(Object.keys(config).length > 0 && { config }),
    deliver: [{ ...delivery, kind: delivery.kind }],
  };
}

/** The whole spec, checked; undefined: it has no credentials. */
async function specOf(body: SpecBody, added: CredentialSource[]): Promise<DeploySpec | undefined> {
  const has = "text" in body
    ? WORD.test(body.text)
    : (body.spec as Partial<DeploySpec> | null)?.credentials !== undefined;
  if (!has && added.length === 0) return undefined;
  const { parseDeploySpec, validateDeploySpec } = await import("../api/deploy_spec_parse.ts");
  const amend = (value: unknown) => {
    if (added.length === 0 || typeof value !== "object" || value === null) return value;
    const { sources = [] } = Object((value as { credentials?: unknown }).credentials);
    return { ...value, credentials: { sources: [...sources, ...added] } };
  };
  const spec = "text" in body
    ? parseDeploySpec(body.text, { file: body.source, amend })
    : validateDeploySpec(amend(body.spec));
  return spec.credentials && spec.credentials.sources.length > 0 ? spec : undefined;
}

export interface Prepared {
  body: SpecBody;
  takes?: SessionWatcher["takes"];
}

/** Takes the sources out of what is sent. Throws `usage` where credentials are asked for without a session. */
export async function withCredentials(
  body: SpecBody,
  { flags, session, env, folder = Deno.cwd(), ghBin, notice, signal }: CredentialOptions,
): Promise<Prepared> {
  const spec = await specOf(body, flags.map(parseFlag));
  if (!spec) return { body };
  if (!session) {
    throw new SvcError(
      "usage",
      `Cannot deploy ${spec.name} with credentials: they are made here while they are needed, and ` +
        "nobody would stay to make them",
      { help: "write `svc deploy --session`" },
    );
  }
  const [{ deliveriesOf, withoutSources }, { openSources }, { serveCredentials }] = await Promise
    .all([
      import("../api/credentials.ts"),
      import("../credentials/kinds.ts"),
      import("../credentials/serve.ts"),
    ]);
  const around = { env, folder, ghBin, notice };
  const sources = openSources(spec.credentials!.sources, around);
  const upstreams = deliveriesOf(spec).filter((one) => one.kind === "proxy");
  const { logins } = body;
  const certificates = "certificates" in body ? body.certificates : undefined;
  const files = "files" in body ? body.files : undefined;
  return {
    body: {
      ...{ name: spec.name, spec: withoutSources(spec) },
      ...(logins && { logins }),
      ...(certificates && { certificates }),
      ...(files && { files }),
    },
    takes: { credential: serveCredentials({ sources, upstreams, notice, signal }) },
  };
}
