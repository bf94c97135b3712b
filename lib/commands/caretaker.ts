/** `svc caretaker`: runs the roles of SVC_CARETAKER_CONFIG beside a workload. `svc caretaker check` is its probe. */
import { buildInfo } from "../base/build_info.ts";
import { SvcError } from "../base/errors.ts";
import { createLogger } from "../base/log.ts";
import { Caretaker, CARETAKER_STREAMS, type CaretakerOptions } from "../caretaker/caretaker.ts";
import { type CaretakerConfig, parseConfig } from "../caretaker/config.ts";
import { askStatus, serveStatus, statusPath } from "../caretaker/status.ts";
import { attach } from "../client/attached/attach.ts";
import { createClient } from "../client/client.ts";
import type { Environment, Invocation } from "./command.ts";

function configIn(env: Environment): CaretakerConfig {
  const { SVC_CARETAKER_CONFIG: text } = env;
  if (text !== undefined) return parseConfig(text);
  throw new SvcError("usage", "Cannot run caretaker: SVC_CARETAKER_CONFIG is not set", {
    help: "set it to the document with the roles; a server that makes companions sets it for them",
  });
}

/** Opens sessions to the document's server. Throws `usage` where there is no token for it. */
function connector(
  { server }: CaretakerConfig,
  { SVC_CARETAKER_TOKEN: token }: Environment,
): CaretakerOptions["connect"] {
  if (!server) return undefined;
  if (!token) {
    throw new SvcError("usage", "Cannot run caretaker: SVC_CARETAKER_TOKEN is not set", {
      help: "set it to the instance's token; a server that makes companions sets it for them",
    });
  }
  const { url, instance } = server;
  const client = createClient({ server: url.replace(/^ws/, "http"), token });
  return (takes, signal) =>
    attach(client, "/caretaker/attach", {
      attempt: `attach the caretaker of ${instance}`,
      query: new URLSearchParams({ instance }),
      maxStreams: CARETAKER_STREAMS,
      takes,
      signal,
    });
}

export async function run({ env, io, positionals: [action] }: Invocation): Promise<number> {
  const config = configIn(env);
  const path = statusPath(config, env.TMPDIR);
  if (action === "check") {
    const { state, roles } = await askStatus(path);
    await io.stdout.write(`${state}: ${roles.join(", ")}\n`);
    return state === "ready" ? 0 : 1;
  }
  if (action !== undefined) {
    throw new SvcError("usage", `Cannot run caretaker: unknown action ${JSON.stringify(action)}`, {
      help: "leave it out to run the roles, or use check",
    });
  }
  const caretaker = new Caretaker({
    config,
    version: buildInfo().version,
    connect: connector(config, env),
    log: createLogger({
      level: "info",
      format: io.stderr.isTerminal ? "text" : "json",
      write: (line) => void io.stderr.write(`${line}\n`),
    }),
    signal: io.signal,
  });
  using _status = await serveStatus(path, () => caretaker.status());
  await caretaker.run();
  return 0;
}
