/** `svc deploy --session -d`: a deployment that lives as long as this machine's agent holds it. */
import { openAgent } from "../agent/client.ts";
import type { ApplyResult } from "../api/deployment.ts";
import { resolve } from "../base/path.ts";
import type { Endpoint } from "../client/conduit/conduit.ts";
import { getDeployment, type SpecBody } from "../client/deployments.ts";
import { parseMountSource } from "../client/mounts/source.ts";
import type { Target } from "../client/resolve.ts";
import type { Invocation } from "./command.ts";
import { openConnection } from "./connect.ts";
import { describe, type SessionWork } from "./daemon/work.ts";
import { endpointLine } from "./endpoint_line.ts";
import type { DEPLOY_OPTIONS } from "./options.ts";

/** The agent has no use for a text: it holds a deployment by its name. */
async function checked(body: SpecBody): Promise<SessionWork["body"]> {
  if (!("text" in body)) return body;
  const { parseDeploySpec } = await import("../api/deploy_spec_parse.ts");
  const spec = parseDeploySpec(body.text, { file: body.source });
  return { name: spec.name, spec };
}

export async function runDetached(
  invocation: Invocation<typeof DEPLOY_OPTIONS>,
  target: Target,
  given: SpecBody,
  report: (result: ApplyResult) => Promise<void>,
): Promise<number> {
  const { io, env, values } = invocation;
  const json = values.output === "json";
  const body = await checked(given);
  const mounts = (values.mount ?? []).map(parseMountSource)
    .map((one) => ({ ...one, source: resolve(one.source) }));
  const { tokenCache, ghBin, credential: credentials = [] } = values;
  const work: SessionWork = {
    ...{ target, tokenCache, ghBin, body, mounts, credentials, conduit: true },
  };
  const agent = await openAgent({ env, signal: io.signal });
  const { same, value } = await agent.hold(
    describe(invocation, work, { kind: "session", name: body.name, work }),
    {
      onProgress: (message) =>
        void (json
          ? io.stdout.write(JSON.stringify({ type: "progress", message }) + "\n")
          : io.stderr.write(`${message}\n`)),
    },
  );
  const { result, endpoints } = value as { result: ApplyResult; endpoints: Endpoint[] };
  if (same) {
    const { client } = await openConnection(invocation, target);
    await report({ action: "unchanged", deployment: await getDeployment(client, body.name) });
  } else await report(result);
  for (const endpoint of endpoints) {
    await io.stdout.write(
      json ? JSON.stringify({ type: "endpoint", endpoint }) + "\n" : `${endpointLine(endpoint)}\n`,
    );
  }
  if (!json) {
    await io.stderr.write(
      `svc: the agent holds ${body.name} (svc daemon status); svc rm ${body.name} ends it\n`,
    );
  }
  return 0;
}
