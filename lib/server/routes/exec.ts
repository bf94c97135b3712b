/** `GET /.svc/v1/deployments/{name}/exec`: a command and its streams (lib/api/exec.ts). */
import { endpoint } from "../../api/endpoints.ts";
import { SvcError } from "../../base/errors.ts";
import { decodeExecQuery, type ExecEnd, type ExecQuery } from "../../api/exec.ts";
import type { DeployBackend, ExecRequest, ExecSession } from "../../deploy/backend.ts";
import { shellCandidates } from "../../deploy/shells.ts";
import type { Attached } from "../../wire/attached/session.ts";
import { agentOf } from "../attached/agent.ts";
import { accept } from "../attached/accept.ts";
import { serveProcess } from "../attached/process.ts";
import type { ManagementDeps } from "../deps.ts";
import { describeError } from "../error_response.ts";
import type { Context, Route } from "../route.ts";
import { unknownDeployment } from "./deployments.ts";

function execRequest(query: ExecQuery): ExecRequest {
  const env: Record<string, string> = {};
  for (const pair of query.env ?? []) {
    const equals = pair.indexOf("=");
    if (equals < 1) {
      throw new SvcError(
        "argument_invalid",
        `Cannot exec: env: expected KEY=VALUE, got ${JSON.stringify(pair)}`,
      );
    }
    env[pair.slice(0, equals)] = pair.slice(equals + 1);
  }
  const { command, user, workingDir, instance, tty, size } = query;
  return { command, env, user, workingDir, instance, tty, ...(size && { size }) };
}

/** Throws `unsupported` where the backend forwards no agent: before anything is done. */
function requireAgent({ name: backend, caps }: DeployBackend, name: string): void {
  if (caps.agent) return;
  const { companionVariable } = caps;
  throw new SvcError(
    "unsupported",
    `Cannot exec in ${name} with the SSH agent: ${
      companionVariable
        ? `the server's instances have no companions, as ${companionVariable} is off`
        : `the ${backend} backend has no companions`
    }`,
    {
      help: companionVariable
        ? `start the server with ${companionVariable}=1, or leave out --forward-agent`
        : "leave out --forward-agent",
    },
  );
}

/** Adds the socket of the caller's agent to what is run; `use` is disposed of when the command has ended. */
async function withAgent(
  backend: DeployBackend,
  name: string,
  query: ExecQuery,
  { session, signal, use }: { session: Attached; signal: AbortSignal; use: AsyncDisposableStack },
): Promise<ExecQuery> {
  const connect = agentOf(session);
  const { instance } = query;
  const forwarded = await backend.caps.agent!(name, { instance, connect, signal });
  use.use(forwarded);
  // A variable of the caller's own wins over an earlier one, but not over the socket that was asked for.
  const env = [...query.env ?? [], `SSH_AUTH_SOCK=${forwarded.path}`];
  return { ...query, env, instance: forwarded.instance };
}

/** Starts the command, or the first shell that exists where no command is named. */
async function open(
  backend: DeployBackend,
  name: string,
  query: ExecQuery,
  signal: AbortSignal,
): Promise<ExecSession> {
  const wanted = execRequest(query);
  const exec = backend.caps.exec!;
  if (wanted.command.length > 0) return await exec(name, wanted, { signal });
  const spec = await backend.spec(name);
  const candidates = shellCandidates(spec?.shells, query.shells);
  for (const command of candidates) {
    const session = await exec(name, { ...wanted, command }, { signal });
    if (!session.refused) return session;
    await discard(session);
  }
  const tried = candidates.map(([program]) => program).join(", ");
  throw new SvcError("not_found", `Cannot open a shell in ${name}: it has none of ${tried}`, {
    help: "name a command that is there: svc exec -it NAME COMMAND",
  });
}

/** Cancels output that nobody will read. */
async function discard(session: ExecSession): Promise<void> {
  await Promise.allSettled([session.stdout.cancel(), session.stderr.cancel()]);
}

/** Resolves when the command has ended and the session is closed. */
async function serve(session: Attached, exec: ExecSession, stdin: boolean): Promise<void> {
  const { stdout, stderr, exit } = exec;
  const input = exec.stdin.getWriter();
  if (!stdin) input.close().catch(() => {/* it ended without reading its input */});
  await serveProcess(session, {
    ...stdin && { stdin: input },
    ...{ stdout, stderr },
    ...exec.resize && { resize: (size) => exec.resize!(size) },
    end: exit.then((exit) => ({ exit } satisfies ExecEnd)),
    left: () => exec.kill("SIGKILL"),
  }, { attempt: "exec" });
}

export function execRoutes(deps: ManagementDeps): Route[] {
  async function exec(context: Context): Promise<Response> {
    const { url, params: { name } } = context;
    const query = decodeExecQuery(url.searchParams);
    execRequest(query);
    const backend = await deps.deploy.backend();
    if (!backend.caps.exec) {
      throw new SvcError("unsupported", `Cannot exec in ${name}: ${backend.name} cannot do it`);
    }
    if (query.agent) requireAgent(backend, name);
    if (!await backend.status(name)) throw unknownDeployment("exec in", name);
    const stopped = new SvcError(
      "unavailable",
      `Cannot exec in ${name}: the server is shutting down`,
    );
    const { session, response } = accept(context, deps.lifecycle, {
      attempt: `exec in ${name}`,
      help: "use `svc exec`",
      onStop: (session) => session.fail(stopped),
    });
    const gone = new AbortController();
    void session.closed.then((reason) => gone.abort(reason));
    // WebSocket clients cannot read the body of a refused upgrade: the reason is sent as the session's error.
    const run = async () => {
      await using use = new AsyncDisposableStack();
      const wanted = query.agent
        ? await withAgent(backend, name, query, { session, signal: gone.signal, use })
        : query;
      const command = await open(backend, name, wanted, gone.signal);
      await serve(session, command, query.stdin === true);
    };
    run().catch((error) => session.fail(describeError(error, context)))
      .finally(deps.lifecycle.begin());
    return response;
  }

  return [{
    ...endpoint("GET /deployments/{name}/exec"),
    action: "exec",
    help:
      "Attached session: runs a command in a running instance. The server opens the streams `stdio`, " +
      "`stderr` and `command` (sizes of the terminal from the client, the exit code from the server). With " +
      "`tty` and no `command` it is a shell: the first there is of the workload's own, each `shell`, and the " +
      "usual ones.",
    handler: exec,
  }];
}
