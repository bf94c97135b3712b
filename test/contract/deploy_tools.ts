/** What the tests of deploy backends share; nothing here knows the host that a backend runs on. */
import { validateDeploySpec } from "../../lib/api/deploy_spec_parse.ts";
import type { LogFrame } from "../../lib/api/deployment.ts";
import type { DeployBackend, ExecRequest, LogOptions } from "../../lib/deploy/backend.ts";

/** A spec that stops at once. */
export function quickSpec(name: string, image: string, more: Record<string, unknown> = {}) {
  return validateDeploySpec({ name, image, stopSignal: "SIGKILL", ...more });
}

export async function lines(backend: DeployBackend, name: string, options?: LogOptions) {
  const frames: LogFrame[][] = await Array.fromAsync(backend.logs(name, options));
  return frames.flat().map((frame) => frame.line);
}

/** Runs a command to its end. */
export async function execute(
  backend: DeployBackend,
  name: string,
  request: ExecRequest,
  input = "",
) {
  const session = await backend.caps.exec!(name, request);
  const writer = session.stdin.getWriter();
  const written = writer.write(new TextEncoder().encode(input)).then(() => writer.close());
  const [stdout, stderr, code] = await Promise.all([
    new Response(session.stdout as ReadableStream<Uint8Array<ArrayBuffer>>).text(),
    new Response(session.stderr as ReadableStream<Uint8Array<ArrayBuffer>>).text(),
    session.exit,
    written.catch(() => {/* it ended without reading */}),
  ]);
  return { stdout, stderr, code };
}

export const shell = (script: string) => ["sh", "-c", script];

/** For scripts: `until_told NAME` waits for {@linkcode tell}, so that no step of theirs comes early or late. */
export const UNTIL_TOLD =
  "until_told() { while [ ! -e /tmp/$1 ]; do sleep 0.05; done; rm /tmp/$1; }; ";

export const tell = (backend: DeployBackend, name: string, what: string) =>
  execute(backend, name, { command: ["touch", `/tmp/${what}`] });

/** A health check that is never decided: the instance is on trial for as long as it runs. */
export const UNDECIDED = { test: "false", interval: "1h", retries: 1000 };

/** Another one with each start of an instance. */
export async function runs(backend: DeployBackend, name: string): Promise<string[]> {
  const { instances } = (await backend.status(name))!;
  return instances.map(({ id, startedAt }) => `${id} since ${startedAt}`);
}
