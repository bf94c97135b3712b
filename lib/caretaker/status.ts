/** How `svc caretaker check` learns how the caretaker beside it does. */
import { SvcError } from "../base/errors.ts";
import type { CaretakerState } from "./caretaker.ts";
import type { CaretakerConfig } from "./config.ts";

export interface CaretakerStatus {
  state: CaretakerState;
  roles: string[];
}

/** Bytes of an answer, at most. */
const MAX_ANSWER = 64 * 1024;

/** The socket of the document's caretaker; where it names none, one for this user. */
export const statusPath = ({ status }: Pick<CaretakerConfig, "status">, temporary = "/tmp") =>
  status ?? `${temporary}/svc-caretaker-${Deno.uid()}.sock`;

/** Asks the caretaker at this socket. Throws `unavailable` where none answers. */
export async function askStatus(path: string): Promise<CaretakerStatus> {
  const none = (cause: unknown) =>
    new SvcError("unavailable", `Cannot check the caretaker: none answers at ${path}`, {
      cause,
      help: "start it with svc caretaker, with the same SVC_CARETAKER_CONFIG",
    });
  try {
    using connection = await Deno.connect({ transport: "unix", path });
    let text = "";
    const decoder = new TextDecoder();
    const buffer = new Uint8Array(4096);
    for (let size; (size = await connection.read(buffer)) !== null;) {
      text += decoder.decode(buffer.subarray(0, size), { stream: true });
      if (text.length > MAX_ANSWER) throw new Error("its answer is too long");
    }
    return JSON.parse(text) as CaretakerStatus;
  } catch (error) {
    throw none(error);
  }
}

/** Answers who connects. Throws `conflict` where another caretaker does already. */
export async function serveStatus(
  path: string,
  status: () => CaretakerStatus,
): Promise<Disposable> {
  const other = await askStatus(path).then(() => true, () => false);
  if (other) {
    throw new SvcError("conflict", `Cannot start the caretaker: another one answers at ${path}`, {
      help: "name another socket for this one (status in SVC_CARETAKER_CONFIG)",
    });
  }
  // One that was killed has left its socket.
  await Deno.remove(path).catch(() => {/* there is none */});
  const listener = Deno.listen({ transport: "unix", path });
  await Deno.chmod(path, 0o600);
  const answer = async () => {
    for await (const connection of listener) {
      const text = new TextEncoder().encode(JSON.stringify(status()));
      await connection.write(text).catch(() => {/* it has gone */});
      connection.close();
    }
  };
  answer().catch(() => {/* it is closed */});
  return {
    [Symbol.dispose]() {
      listener.close();
      try {
        Deno.removeSync(path);
      } catch {
        // somebody has removed it
      }
    },
  };
}
