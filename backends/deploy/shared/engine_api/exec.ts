/** Commands beside a container's main process. */
import { SvcError } from "../../../../lib/base/errors.ts";
import { sleep } from "../../../../lib/base/sleep.ts";
import type { TerminalSize } from "../../../../lib/base/terminal.ts";
import type { ExecRequest, ExecSession } from "../../../../lib/deploy/backend.ts";
import { NOT_EXECUTABLE, NOT_FOUND, refusedExec } from "../../../../lib/deploy/refused_exec.ts";
import type { DockerClient } from "../../../../lib/docker/client.ts";
import { splitOutput } from "../../../../lib/docker/frames.ts";
import type { EngineBehaviour } from "./behaviour.ts";
import { type Duplex, readableOf, writableOf } from "../../../../lib/wire/duplex.ts";

/** Names the command in its environment: the API tells its process id on the engine's host only. */
const MARK = "SVC_EXEC";

interface InspectedExec {
  Running: boolean;
  /** Null until it has ended. */
  ExitCode: number | null;
  Pid: number;
}

/** The runtime's words for a command that is not there. */
const MISSING = /executable file not found|no such file or directory/;

export interface ExecPlace {
  client: DockerClient;
  container: string;
  instance: string;
  /** See {@linkcode EngineBehaviour.execRefusal}. */
  refusal?: RegExp;
  forgotten?: EngineBehaviour["forgottenExec"];
}

async function createExec(
  { client, container, instance }: ExecPlace,
  request: ExecRequest,
  mark: string,
): Promise<string> {
  const { command, env = {}, user, workingDir, tty = false } = request;
  const created = await client.json<{ Id: string }>({
    path: `/containers/${container}/exec`,
    json: {
      AttachStdin: true,
      AttachStdout: true,
      AttachStderr: true,
      Tty: tty,
      Cmd: command,
      Env: [...Object.entries(env).map(([name, value]) => `${name}=${value}`), `${MARK}=${mark}`],
      ...(user !== undefined && { User: user }),
      ...(workingDir !== undefined && { WorkingDir: workingDir }),
    },
    attempted: `Cannot run a command in ${instance}`,
  });
  return created.Id;
}

/** Sends the signal from within the container, to the marked process that no other marked one began. */
const KILL = `for d in /proc/[0-9]*; do
  grep -q "${MARK}=$1" "$d/environ" 2>/dev/null || continue
  while read -r k v _; do [ "$k" = PPid: ] && p=$v; done < "$d/status"
  grep -q "${MARK}=$1" "/proc/$p/environ" 2>/dev/null || kill -s "$2" "\${d#/proc/}"
done`;

class Exec {
  readonly #place: ExecPlace;
  readonly #id: string;
  readonly #mark: string;

  constructor(place: ExecPlace, id: string, mark: string) {
    this.#place = place;
    this.#id = id;
    this.#mark = mark;
  }

  look(): Promise<InspectedExec> {
    return this.#place.client.json<InspectedExec>({
      path: `/exec/${this.#id}/json`,
      attempted: `Cannot look at a command in ${this.#place.instance}`,
    });
  }

  /** Waits until this holds of the command. */
  async until(holds: (now: InspectedExec) => boolean): Promise<InspectedExec> {
    for (let wait = 2;; wait = Math.min(2 * wait, 250)) {
      const now = await this.look();
      if (holds(now)) return now;
      await sleep(wait);
    }
  }

  async ended(): Promise<Pick<InspectedExec, "ExitCode">> {
    const { client, container, forgotten } = this.#place;
    try {
      return await this.until(({ Running, ExitCode }) => !Running && ExitCode !== null);
    } catch (error) {
      if (!forgotten || !(error instanceof SvcError) || error.code !== "not_found") throw error;
      return { ExitCode: await forgotten(client, container, this.#id) };
    }
  }

  async resize({ columns, rows }: TerminalSize): Promise<void> {
    await this.#place.client.run({
      method: "POST",
      path: `/exec/${this.#id}/resize`,
      query: { w: columns, h: rows },
      attempted: `Cannot resize a terminal in ${this.#place.instance}`,
    });
  }

  async kill(signal: string): Promise<void> {
    const name = signal.replace(/^SIG/, "");
    const command = ["sh", "-c", KILL, "sh", this.#mark, name];
    const session = await execIn(this.#place, { command, user: "0" });
    const [code] = await Promise.all([
      session.exit,
      session.stdin.close(),
      session.stdout.pipeTo(new WritableStream()),
      session.stderr.pipeTo(new WritableStream()),
    ]);
    if (code !== 126 && code !== 127) return;
    throw new SvcError(
      "unsupported",
      `Cannot send a signal to a command in ${this.#place.instance}: the image has no shell`,
      { help: "restart the deployment, or use an image with sh, grep and kill" },
    );
  }
}

/** A session whose command has ended already. */
function ended(said: Uint8Array, code: number, tty: boolean): ExecSession {
  const outputs = tty
    ? { stdout: ReadableStream.from([said]), stderr: ReadableStream.from<Uint8Array>([]) }
    : splitOutput(ReadableStream.from([said]), () => {});
  return {
    ...outputs,
    stdin: new WritableStream(),
    exit: Promise.resolve(code),
    kill: () => Promise.resolve(),
    ...(tty && { resize: () => {} }),
  };
}

/** The session of a command that runs. An abort ends the command. */
function sessionOf(
  exec: Exec,
  { duplex, tty, signal }: { duplex: Duplex; tty: boolean; signal?: AbortSignal },
): ExecSession {
  const onAbort = () => {
    exec.kill("KILL").catch(() => {/* it ended meanwhile */}).finally(() => duplex.reset());
  };
  signal?.addEventListener("abort", onAbort, { once: true });
  if (signal?.aborted) onAbort();
  const over = Promise.withResolvers<void>();
  const whole = async function* () {
    try {
      yield* readableOf(duplex);
    } catch (error) {
      over.reject(error);
      throw error;
    } finally {
      over.resolve();
    }
  };
  const outputs = tty
    ? { stdout: ReadableStream.from(whole()), stderr: ReadableStream.from<Uint8Array>([]) }
    : splitOutput(whole(), () => duplex.reset());
  const exit = (async () => {
    await over.promise;
    const { ExitCode } = await exec.ended();
    signal?.removeEventListener("abort", onAbort);
    duplex.reset();
    return ExitCode!;
  })();
  exit.catch(() => {/* told to who waits for it */});
  const input = writableOf(duplex).getWriter();
  return {
    ...outputs,
    stdin: new WritableStream({
      write: (bytes) => input.write(bytes),
      // The end of a terminal's input is typed.
      close: () => tty ? undefined : input.close(),
      abort: () => undefined,
    }),
    exit,
    kill: (name) => exec.kill(name),
    ...(tty && {
      resize: (to: TerminalSize) => void exec.resize(to).catch(() => {/* it has ended */}),
    }),
  };
}

/** Throws `conflict` where the container does not run. An abort ends the command. */
export async function execIn(
  place: ExecPlace,
  request: ExecRequest,
  signal?: AbortSignal,
): Promise<ExecSession> {
  const { command: [name], tty = false, size = { columns: 80, rows: 24 } } = request;
  if (name === undefined) {
    throw new SvcError("argument_invalid", "Cannot run a command: none is given");
  }
  const mark = crypto.randomUUID();
  const id = await createExec(place, request, mark);
  const exec = new Exec(place, id, mark);
  const duplex = await place.client.upgrade({
    path: `/exec/${id}/start`,
    json: { Detach: false, Tty: tty },
    attempted: `Cannot run ${name} in ${place.instance}`,
  });
  const begun = await exec.until(({ Pid, ExitCode }) => Pid > 0 || ExitCode !== null);
  if (begun.Pid === 0 && [NOT_EXECUTABLE, NOT_FOUND].includes(begun.ExitCode!)) {
    const said = await new Response(readableOf(duplex) as ReadableStream<Uint8Array<ArrayBuffer>>)
      .bytes();
    duplex.reset();
    const words = new TextDecoder().decode(said);
    if (place.refusal && !place.refusal.test(words)) return ended(said, begun.ExitCode!, tty);
    // Docker before 23 has the code 126 for both.
    return refusedExec(name, MISSING.test(words) ? NOT_FOUND : begun.ExitCode!);
  }
  if (tty) await exec.resize(size).catch(() => {/* it has ended already */});
  return sessionOf(exec, { duplex, tty, signal });
}
