/** `svc deploy --session`, or another command that stays, as a process that a test talks to. */
import { PATIENCE_MS } from "../waits.ts";
import { EXECUTABLE, type Server } from "./harness.ts";

/** Without the person's own settings of svc. */
const OWN_ENV = Object.fromEntries(
  Object.entries(Deno.env.toObject()).filter(([name]) => !name.startsWith("SVC_")),
);

/** A client that stays, and what it has written so far. */
export class Client implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #ended: Promise<Deno.CommandStatus>;
  #text = { stdout: "", stderr: "" };
  #over = false;
  #changed = Promise.withResolvers<void>();

  /** `command`: the words before `args`. */
  constructor(
    server: Server,
    args: string[],
    env: Record<string, string> = {},
    cwd?: string,
    command: readonly string[] = ["deploy", "--session"],
  ) {
    this.#child = new Deno.Command(EXECUTABLE, {
      args: [...command, ...args],
      cwd,
      clearEnv: true,
      env: {
        ...OWN_ENV,
        SVC_CONFIG: "/nonexistent/svc-test-config.yaml",
        SVC_SERVER: server.url,
        ...env,
      },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const read = async (name: "stdout" | "stderr") => {
      const decoder = new TextDecoder();
      for await (const chunk of this.#child[name]) {
        this.#text[name] += decoder.decode(chunk, { stream: true });
        this.#tell();
      }
    };
    this.#ended = Promise.all([this.#child.status, read("stdout"), read("stderr")])
      .then(([status]) => status);
    this.#ended.then(() => {
      this.#over = true;
      this.#tell();
    });
  }

  #tell(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  get stdout(): string {
    return this.#text.stdout;
  }

  get all(): string {
    return `${this.#text.stdout}\n${this.#text.stderr}`;
  }

  async wrote(pattern: RegExp): Promise<RegExpExecArray> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(new Error(`nothing has ${pattern}:\n${this.all}`)),
      PATIENCE_MS,
    );
    try {
      for (;;) {
        const changed = this.#changed.promise;
        const found = pattern.exec(this.all);
        if (found) return found;
        // The last words are read once it has ended.
        if (this.#over) throw new Error(`it ended, and nothing has ${pattern}:\n${this.all}`);
        await Promise.race([changed, late.promise]);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  get pid(): number {
    return this.#child.pid;
  }

  kill(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  get ended(): Promise<Deno.CommandStatus> {
    return this.#ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // it has ended
    }
    await this.#ended;
  }
}
