/** `svc deploy --session`: a deployment that lives as long as the command. */
import type { ApplyResult, DeploymentStatus } from "../api/deployment.ts";
import { LinePrefixer } from "../api/log_bytes.ts";
import { BrokenPipe, type Io } from "../base/terminal.ts";
import { type Conduit, openConduit } from "../client/conduit/conduit.ts";
import type { PreparedIngress } from "../client/conduit/ingress.ts";
import { type DeploySession, openDeploySession } from "../client/deploy_session.ts";
import type { SpecBody } from "../client/deployments.ts";
import { servicesOf } from "../client/forward.ts";
import type { Client } from "../client/client.ts";
import type { Target } from "../client/resolve.ts";
import { sessionLogs } from "../client/session_logs.ts";
import type { Invocation } from "./command.ts";
import { openConnection } from "./connect.ts";
import { withCertificates } from "./deploy_certificates.ts";
import { withCredentials } from "./deploy_credentials.ts";
import { withLogins } from "./deploy_logins.ts";
import { offerMounts } from "./deploy_mounts.ts";
import { egressTakes } from "./egress_takes.ts";
import { endpointLine } from "./endpoint_line.ts";
import type { DEPLOY_OPTIONS } from "./options.ts";
import { prepareSessionIngress } from "./session_ingress.ts";

/** Milliseconds to wait for the last log lines after the deployment has ended. */
const LAST_LINES_MS = 2000;

type Event = { type: string } & Record<string, unknown>;

/** Writes the output; `broken` tells that the reader of standard output went away. */
class View {
  readonly #io: Io;
  readonly json: boolean;
  readonly #broken = Promise.withResolvers<never>();

  constructor(io: Io, json: boolean) {
    this.#io = io;
    this.json = json;
    this.#broken.promise.catch(() => {/* its waiter is told */});
  }

  get broken(): Promise<never> {
    return this.#broken.promise;
  }

  write(stream: "stdout" | "stderr", data: string | Uint8Array): void {
    this.attend(this.#io[stream].write(data));
  }

  /** Reports a failure of `writing` by `broken`. */
  attend(writing: Promise<void>): void {
    writing.catch(this.#broken.reject);
  }

  /** Writes an event: as JSON, or as `text` for a person. */
  tell(stream: "stdout" | "stderr", event: Event, text: string): void {
    if (this.json) this.write("stdout", JSON.stringify(event) + "\n");
    else if (text !== "") this.write(stream, text + "\n");
  }

  notice(text: string): void {
    this.write("stderr", `svc: ${text}\n`);
  }
}

/** The exit code of a single instance; of several, 0 if all of them ended with 0. */
export function exitCodeOf({ instances }: Pick<DeploymentStatus, "instances">): number {
  const codes = instances.map(({ exitCode = 1 }) => exitCode & 255);
  return codes.length === 1 ? codes[0] : codes.every((code) => code === 0) ? 0 : 1;
}

interface Running {
  client: Client;
  target: Target;
  view: View;
  session: DeploySession;
  /** Aborts when the command must no longer wait. */
  signal: AbortSignal;
  quiet: boolean;
  report: (result: ApplyResult) => Promise<void>;
  ingress?: PreparedIngress;
  /** Settles when the logs end; the signal ends them. */
  followed?: Promise<void>;
}

/** Shows the conduit and its endpoints. */
async function show(
  { client, target, view, ingress }: Running,
  { deployment: { name, ports, exposed = [], ingress: routes } }: ApplyResult,
): Promise<Conduit> {
  const conduit = await openConduit({
    mode: target.conduit.value,
    services: servicesOf(client),
    deployments: [{ name, ports: [...ports, ...exposed], ingress: routes }],
    settings: target.settings.conduit ?? {},
    ingress,
    warn: (text) => view.notice(`warning: ${text}`),
  });
  for (const endpoint of conduit.endpoints) {
    view.tell("stdout", { type: "endpoint", endpoint }, endpointLine(endpoint));
  }
  return conduit;
}

async function follow(
  { client, view, signal }: Running,
  { deployment: { name, instances } }: ApplyResult,
  over: AbortSignal,
): Promise<void> {
  const several = instances.length > 1;
  const lines = new LinePrefixer();
  for await (const frame of sessionLogs(client, name, { over, signal })) {
    view.write(frame.stream, lines.print(frame, several ? `${frame.instance} | ` : ""));
  }
}

/** Runs from the apply to the end of the session; resolves to the exit code. */
async function live(running: Running): Promise<number> {
  const { session, view, quiet, report } = running;
  const result = await Promise.race([session.applied, session.closed, view.broken]);
  // The session ended while the spec was being applied.
  if (typeof result === "string") return ended(view, result);
  const { name } = result.deployment;
  view.attend(report(result));
  const over = new AbortController();
  await using conduit = await show(running, result);
  if (!quiet && !view.json) {
    // A failure of the logs does not end the deployment.
    running.followed = follow(running, result, over.signal)
      .catch(({ message }) => view.notice(`warning: ${message}`));
  }
  const broken = Promise.withResolvers<never>();
  conduit.closed.catch(broken.reject);
  const how = await Promise.race([session.closed, session.exited, view.broken, broken.promise]);
  over.abort();
  await settled(running.followed);
  if (typeof how === "string") return ended(view, how, name);
  const code = exitCodeOf(how);
  view.tell("stderr", { type: "exited", deployment: how }, `${name} ended with ${code}`);
  session.end();
  await session.closed;
  return code;
}

function ended(view: View, how: "ended" | "gone", name?: string): number {
  const gone = `${name ?? "the deployment"} was removed by somebody else`;
  const text = how === "gone" ? gone : name === undefined ? "" : `${name} is removed`;
  view.tell("stderr", { type: how }, text);
  return how === "gone" ? 1 : 0;
}

async function settled(work: Promise<void> | undefined): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, LAST_LINES_MS);
  await Promise.race([work, late.promise]);
  clearTimeout(timer);
}

/**
 * Runs until the deployment has ended or Ctrl-C ends it. A second Ctrl-C leaves at once; the server then
 * removes the deployment after its grace period.
 */
export async function runSession(
  invocation: Invocation<typeof DEPLOY_OPTIONS>,
  found: Target,
  body: SpecBody,
  report: (result: ApplyResult) => Promise<void>,
): Promise<number> {
  const { io, values } = invocation;
  const view = new View(io, values.output === "json");
  const leaving = new AbortController();
  const { signal } = leaving;
  let open: string | undefined;
  const { client } = await openConnection({ ...invocation, io: { ...io, signal } }, found);
  const warn = (text: string) => view.notice(`warning: ${text}`);
  using offered = await offerMounts(values.mount, { env: invocation.env, warn });
  await using ingress = await prepareSessionIngress(invocation, {
    ...{ target: found, client, warn, signal },
  });
  const prepared = await withCredentials(body, {
    ...{ flags: values.credential ?? [], session: true, env: invocation.env, signal },
    ...{ ghBin: values.ghBin, notice: warn },
  });
  const certified = await withCertificates(prepared.body, { target: found, client, warn });
  const complete = await withLogins(certified, { client, env: invocation.env, io });
  const session = openDeploySession(client, { ...complete, mounts: offered?.mounts }, {
    signal,
    onOpen: (name, graceMs) => {
      open = name;
      view.tell("stderr", { type: "session", name, graceMs }, "");
    },
    onProgress: (message) => view.tell("stderr", { type: "progress", message }, message),
    onLost: () => view.notice(`the connection to ${client.server} is lost; trying to resume it`),
    onResumed: () => view.notice("the session is resumed"),
    takes: {
      ...offered?.takes,
      ...await egressTakes(complete, invocation.env),
      ...prepared.takes,
    },
  });
  const interrupt = () => {
    // The server has not accepted the session yet: there is no deployment to wait for.
    if (open === undefined) return leaving.abort(io.signal.reason);
    view.notice(`removing ${open}; interrupt again to leave at once`);
    session.end();
  };
  const hurry = () => leaving.abort(io.hurry!.reason);
  io.signal.addEventListener("abort", interrupt, { once: true });
  io.hurry?.addEventListener("abort", hurry, { once: true });
  if (io.signal.aborted) interrupt();
  const quiet = values.quiet ?? false;
  const running: Running = { client, target: found, view, session, signal, quiet, report, ingress };
  try {
    return await live(running);
  } catch (error) {
    // An error here ends the session too.
    session.end();
    await session.closed.catch(() => {/* the first error counts */});
    if (error instanceof BrokenPipe) return 0;
    throw error;
  } finally {
    io.signal.removeEventListener("abort", interrupt);
    io.hurry?.removeEventListener("abort", hurry);
    leaving.abort(new DOMException("the session is over", "AbortError"));
    await running.followed;
  }
}
