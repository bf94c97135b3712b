/**
 * The role agentRelay: sockets that lead to the SSH agent of whoever runs a command in the workload. A socket is there
 * for one command, and goes with the stream by which the server asked for it.
 */
import { join } from "node:path";
import type { AgentSocketLine } from "../../api/caretaker.ts";
import { toProblem } from "../../api/problem.ts";
import { asSvcError } from "../../base/errors.ts";
import { connDuplex } from "../../wire/duplex.ts";
import { writeLine } from "../../wire/lines.ts";
import { relay } from "../../wire/relay.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { requireMembers, requireText } from "../config.ts";
import type { RoleParts, Settings, StartedRole } from "../role.ts";

/** The socket's name in the folder of its own. */
const SOCKET = "agent";

/** Connections to one socket at once; further ones are closed. */
const MAX_CONNECTIONS = 64;

class AgentSocket implements Disposable {
  readonly #folder: string;
  readonly #listener: Deno.UnixListener;
  readonly #connections = new Set<Deno.UnixConn>();

  private constructor(folder: string, listener: Deno.UnixListener) {
    this.#folder = folder;
    this.#listener = listener;
  }

  /**
   * `folder` is new, and its name is secret: whoever runs as another user in the workload cannot list it. The socket
   * is bound by a relative name, as /proc/net/unix shows names to everyone in the network namespace.
   */
  static listen(folder: string): AgentSocket {
    Deno.mkdirSync(folder, { mode: 0o711 });
    const before = Deno.cwd();
    Deno.chdir(folder);
    try {
      const listener = Deno.listen({ transport: "unix", path: SOCKET });
      // The command may run as any user of the workload.
      Deno.chmodSync(SOCKET, 0o666);
      return new AgentSocket(folder, listener);
    } catch (error) {
      Deno.removeSync(folder, { recursive: true });
      throw error;
    } finally {
      Deno.chdir(before);
    }
  }

  get path(): string {
    return join(this.#folder, SOCKET);
  }

  /** Hands each connection to a stream to the server, until the socket is disposed of. */
  async serve(open: () => YamuxStream): Promise<void> {
    for await (const connection of this.#listener) {
      if (this.#connections.size >= MAX_CONNECTIONS) {
        connection.close();
        continue;
      }
      this.#connections.add(connection);
      this.#join(connection, open)
        .catch(() => {/* the program sees a closed socket, as when an agent ends */})
        .finally(() => this.#connections.delete(connection));
    }
  }

  async #join(connection: Deno.UnixConn, open: () => YamuxStream): Promise<void> {
    const here = connDuplex(connection);
    try {
      await relay(here, open());
    } finally {
      here.reset();
    }
  }

  [Symbol.dispose](): void {
    try {
      this.#listener.close();
    } catch {
      // its end has closed it
    }
    for (const connection of this.#connections) connDuplex(connection).reset();
    try {
      Deno.removeSync(this.#folder, { recursive: true });
    } catch {
      // gone with the workload
    }
  }
}

const fail = async (stream: YamuxStream, error: unknown) => {
  const problem = toProblem(asSvcError(error, "Cannot make a socket for the SSH agent"));
  await writeLine(stream, { ok: false, error: problem } satisfies AgentSocketLine);
  await stream.closeWrite();
};

/** Removes what a caretaker that was killed has left: nothing answers there. */
async function sweep(folder: string): Promise<void> {
  await Deno.mkdir(folder, { recursive: true });
  for await (const { name } of Deno.readDir(folder)) {
    await Deno.remove(join(folder, name), { recursive: true });
  }
  // Others may enter a folder whose name they know, and list none.
  await Deno.chmod(folder, 0o711);
}

export async function start(
  settings: Settings,
  { open }: RoleParts,
): Promise<StartedRole> {
  requireMembers(settings, "agentRelay", ["folder"]);
  const folder = requireText(settings.folder, "roles.agentRelay.folder");
  await sweep(folder);
  const sockets = new Set<AgentSocket>();
  return {
    takes: {
      async agent(stream) {
        const name = crypto.getRandomValues(new Uint8Array(16)).toHex();
        let socket: AgentSocket;
        try {
          socket = AgentSocket.listen(join(folder, name));
        } catch (error) {
          return await fail(stream, error);
        }
        sockets.add(socket);
        const serving = socket.serve(() => open("ssh", { socket: name }));
        serving.catch(() => {/* it is closed */});
        try {
          const line: AgentSocketLine = { ok: true, path: socket.path, socket: name };
          await writeLine(stream, line);
          // The server sends nothing: what ends the stream ends the command.
          while (await stream.read());
        } catch {
          // the connection is lost, and so is the command
        } finally {
          socket[Symbol.dispose]();
          sockets.delete(socket);
        }
        await stream.closeWrite().catch(() => {/* it is lost */});
      },
    },
    [Symbol.asyncDispose]() {
      for (const socket of sockets) socket[Symbol.dispose]();
      return Promise.resolve();
    },
  };
}
