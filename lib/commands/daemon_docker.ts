/** `svc daemon docker`: the Docker Engine API on a Unix socket of this machine, until interrupted. */
import { SvcError } from "../base/errors.ts";
import { isAbsolute, resolve } from "../base/path.ts";
import { openDockerApi } from "../dockerapi/open.ts";
import type { Invocation } from "./command.ts";
import { clientFor, isLocal, openConnection } from "./connect.ts";
import type { DAEMON_DOCKER_OPTIONS } from "./daemon_options.ts";

type Call = Invocation<typeof DAEMON_DOCKER_OPTIONS>;

function socketPath({ values, env }: Call): string {
  const path = values.socket ??
    (env.XDG_RUNTIME_DIR ? `${env.XDG_RUNTIME_DIR}/svc-docker.sock` : undefined);
  if (path === undefined) {
    throw new SvcError(
      "config_invalid",
      "Cannot listen: the environment names no XDG_RUNTIME_DIR",
      {
        help: "set SVC_DOCKER_SOCK to the path of a socket",
      },
    );
  }
  return isAbsolute(path) ? path : resolve(path);
}

export async function run(call: Call): Promise<number> {
  const { io, env } = call;
  if (Deno.build.os === "windows") {
    throw new SvcError(
      "unsupported",
      "Cannot serve the Docker API: this system has no Unix sockets",
    );
  }
  const path = socketPath(call);
  const connection = await openConnection(call);
  // A server that cannot be reached is told now, instead of with each of docker's commands.
  await connection.client.json("GET /info");
  await using _serving = await openDockerApi({
    ...{ path, env },
    connection: {
      target: connection.target,
      way: connection.way,
      credentials: connection.credentials,
    },
    client: (signal) => clientFor(call, connection, signal),
    isLocal: isLocal(connection),
    warn: (text) => void io.stderr.write(`svc: ${text}\n`),
  });
  const url = `unix://${path}`;
  await io.stdout.write(
    call.values.output === "json"
      ? `${JSON.stringify({ docker: url })}\n`
      : `Docker API on ${url}\n`,
  );
  await new Promise<void>((done) => {
    if (io.signal.aborted) done();
    io.signal.addEventListener("abort", () => done(), { once: true });
  });
  return 0;
}
