/**
 * Records what an instance prints. Incus keeps the last part of its console in memory, without times; the server
 * keeps it in a file as the host engine's logs are (lib/deploy/host/log_file.ts). What was printed while no server
 * ran is recorded afterwards, as far as Incus still has it.
 */
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import { ensureDir, removeTree } from "../../../lib/base/fs.ts";
import type { Logger } from "../../../lib/base/log.ts";
import { Mutex } from "../../../lib/base/mutex.ts";
import { sleep } from "../../../lib/base/sleep.ts";
import { rotateLog } from "../../../lib/deploy/host/log_file.ts";
import type { IncusClient } from "../../../lib/incus/client.ts";
import type { IncusSocket } from "../../../lib/incus/socket.ts";
import { freshOf, Live, overlapOf } from "./console_bytes.ts";
import { ConsoleListener } from "./console_listener.ts";

/** Bytes of a log, of which one older file is kept. */
const MAX_LOG = 16 * 1024 ** 2;
/** Bytes of a line that are written before its end is there. */
const MAX_PART = 16 * 1024;
/** The last bytes that were recorded, by which they are found again. */
const TAIL = 256;
/** Milliseconds until a console that was lost is asked for again. */
const PAUSE_MS = 1000;
/** Milliseconds that the first bytes of a console may take that were printed before it was open. */
const SETTLE_MS = 100;
/** Milliseconds that the rest of a console may take after the instance's end. */
const END_MS = 5000;

/** Milliseconds until an instance's console is asked for again while it ends. */
const RETRY_MS = 50;
/** What Incus writes to a console that is opened when the instance has ended. */
const NONE = /^Error: Failed running forkconsole/;

const [NEWLINE, RETURN] = [10, 13];
const encoder = new TextEncoder();

/** How far a run's console is recorded. */
interface Place {
  /** Of which run: when it began. */
  run: string;
  /** Bytes of it. */
  count: number;
  /** The last of them, in base64. */
  tail: string;
}

/** Throws where the bytes are of Incus, not of the instance: then the console is read anew. */
function printed(bytes: Uint8Array): Uint8Array {
  if (!NONE.test(new TextDecoder().decode(bytes.subarray(0, 64)))) return bytes;
  throw new Error("the instance has ended");
}

/** Lines of the log's format. The terminal puts a return before each newline. */
function* logLines(bytes: Uint8Array, time: string): Generator<Uint8Array> {
  const head = (tag: string) => encoder.encode(`${time} stdout ${tag} `);
  for (let from = 0; from < bytes.length;) {
    const end = bytes.indexOf(NEWLINE, from);
    const to = Math.min(end < 0 ? bytes.length : end, from + MAX_PART);
    const whole = to === end;
    const text = bytes.subarray(from, whole && to > from && bytes[to - 1] === RETURN ? to - 1 : to);
    yield Buffer.concat([head(whole ? "F" : "P"), text, Uint8Array.of(NEWLINE)]);
    from = whole ? to + 1 : to;
  }
}

export interface RecorderOptions {
  client: IncusClient;
  /** The instance's. */
  name: string;
  /** Where logs are kept. */
  folder: string;
  log: Logger;
}

export class Recorder {
  readonly path: string;
  readonly #options: RecorderOptions;
  readonly #lock = new Mutex();
  #place: Place = { run: "", count: 0, tail: "" };
  /** What was printed of a line that has no end yet. */
  #rest: Uint8Array = new Uint8Array();
  #live: { run: string; stop: AbortController; over: Promise<void> } | undefined;
  readonly #listeners = new Set<ConsoleListener>();
  /** The console that is open. */
  #open: IncusSocket | undefined;
  #finishing: Promise<void> | undefined;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.path = join(options.folder, `${options.name}.log`);
  }

  get #placePath() {
    return join(this.#options.folder, `${this.#options.name}.json`);
  }

  /** Records a run from its beginning on, or from where it was recorded to. */
  follow(run: string): void {
    if (this.#live?.run === run) return;
    this.#live?.stop.abort();
    const stop = new AbortController();
    const over = this.#follow(run, stop.signal, this.#live?.over);
    this.#live = { run, stop, over };
  }

  /**
   * What is printed from now on, beside the log, until the run ends; of one that does not run, what its next run
   * prints. `plain`: as without a terminal.
   */
  async attach(plain: boolean): Promise<ConsoleListener> {
    await this.#finishing;
    const made = new ConsoleListener({
      plain,
      write: (bytes) => this.#type(bytes),
      left: (who) => this.#listeners.delete(who),
    });
    this.#listeners.add(made);
    return made;
  }

  /** Throws `conflict` while there is no console. */
  async #type(bytes: Uint8Array): Promise<void> {
    if (this.#open) return await this.#open.write(bytes);
    throw new SvcError(
      "conflict",
      `Cannot type to ${this.#options.name}: its console is not open`,
      {
        help: "try again, once it runs",
      },
    );
  }

  #endListeners(): void {
    for (const one of this.#listeners) one.end();
    this.#listeners.clear();
  }

  /** The run has ended: resolves when all that it printed is recorded, as far as Incus has it. */
  finish(run: string): Promise<void> {
    const finishing = this.#finish(run).finally(() => this.#endListeners());
    this.#finishing = finishing.catch(() => {/* told to who waits for it */});
    return finishing;
  }

  async #finish(run: string): Promise<void> {
    const live = this.#live;
    if (live && live.run === run) {
      const late = setTimeout(() => live.stop.abort(), END_MS);
      await Promise.race([live.over, new Promise((resolve) => setTimeout(resolve, END_MS))]);
      clearTimeout(late);
      live.stop.abort();
      this.#live = undefined;
    }
    await this.#begin(run);
    await this.#catchUpLate();
    await this.#take(new Uint8Array(), true);
  }

  /** Stops recording; what was printed of a line without its end is written. */
  async stop(): Promise<void> {
    const live = this.#live;
    this.#live = undefined;
    live?.stop.abort();
    await live?.over;
    this.#endListeners();
  }

  async remove(): Promise<void> {
    await this.stop();
    for (const path of [this.path, `${this.path}.1`, this.#placePath]) await removeTree(path);
  }

  async #begin(run: string): Promise<void> {
    if (this.#place.run === run) return;
    await ensureDir(this.#options.folder, 0o700);
    // Our own: what an earlier server wrote.
    const text = await Deno.readTextFile(this.#placePath).catch(() => "{}");
    const known = JSON.parse(text || "{}") as Partial<Place>;
    this.#place = known.run === run && known.tail !== undefined
      ? { run, count: known.count ?? 0, tail: known.tail }
      : { run, count: 0, tail: "" };
    this.#rest = new Uint8Array();
  }

  async #follow(run: string, signal: AbortSignal, before?: Promise<void>): Promise<void> {
    await before;
    const { log, name } = this.#options;
    let told = false;
    try {
      await this.#begin(run);
    } catch (error) {
      log.warn("an instance's output is not recorded", { instance: name, error });
      return;
    }
    while (!signal.aborted) {
      try {
        await this.#record(signal);
        if (!await this.#runs()) return;
      } catch (error) {
        if (signal.aborted || !await this.#runs().catch(() => true)) return;
        if (!told) log.warn("an instance's output is not recorded", { instance: name, error });
        told = true;
      }
      await sleep(PAUSE_MS, signal).catch(() => {/* it ends */});
    }
  }

  async #runs(): Promise<boolean> {
    const { client, name } = this.#options;
    const { pid } = await client.get<{ pid: number }>({
      path: `/instances/${name}/state`,
      attempted: `Cannot look at ${name}`,
    });
    return pid > 0;
  }

  /** What Incus has of the console. */
  async #printed(): Promise<Uint8Array> {
    const { client, name } = this.#options;
    const { body } = await client.raw({
      path: `/instances/${name}/console`,
      attempted: `Cannot read the output of ${name}`,
    });
    return await new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>).bytes();
  }

  async #fresh(): Promise<Uint8Array> {
    const { count, tail } = this.#place;
    return freshOf(await this.#printed(), count, Uint8Array.fromBase64(tail));
  }

  async #catchUp(): Promise<void> {
    await this.#take(await this.#fresh());
  }

  /** Of an instance that ends at this moment Incus cannot read the console yet. */
  async #catchUpLate(): Promise<void> {
    for (const until = performance.now() + END_MS;; await sleep(RETRY_MS)) {
      try {
        return await this.#catchUp();
      } catch (error) {
        if (performance.now() > until || error instanceof SvcError && error.code === "not_found") {
          return;
        }
      }
    }
  }

  /** Records what comes until the console is closed. */
  async #record(signal: AbortSignal): Promise<void> {
    const { client, name } = this.#options;
    const attempted = `Cannot read the output of ${name}`;
    await this.#catchUp();
    const { id, metadata } = await client.begin({
      path: `/instances/${name}/console`,
      json: { width: 80, height: 24, type: "console" },
      attempted,
      signal,
    });
    const { fds } = metadata as { fds: Record<string, string> };
    const [output, control] = await Promise.all(
      ["0", "control"].map((fd) => client.stream(id, fds[fd], attempted, signal)),
    );
    const close = () => {
      output.close();
      control.close();
    };
    signal.addEventListener("abort", close, { once: true });
    try {
      const live = new Live();
      this.#open = output;
      await this.#join(output, live);
      for (let bytes = await output.read(); bytes; bytes = await output.read()) {
        await this.#take(live.take(printed(bytes)));
      }
    } finally {
      this.#open = undefined;
      signal.removeEventListener("abort", close);
      close();
    }
  }

  /** What was printed while the console was opened: some of it may come through it, too. */
  async #join(output: IncusSocket, came: Live): Promise<void> {
    const gap = await this.#fresh();
    if (gap.length === 0) return;
    let live: Uint8Array = new Uint8Array();
    const late = performance.now() + SETTLE_MS;
    while (live.length < gap.length && performance.now() < late) {
      const bytes = output.waiting();
      if (bytes) live = Buffer.concat([live, came.take(printed(bytes))]);
      else await sleep(10);
    }
    await this.#take(gap);
    await this.#take(live.subarray(overlapOf(gap, live)));
  }

  /** Writes what was printed. `last`: no more of this run comes. */
  #take(bytes: Uint8Array, last = false): Promise<void> {
    return this.#lock.run(async () => {
      for (const one of this.#listeners) one.put(bytes);
      const all = Buffer.concat([this.#rest, bytes]);
      const end = last ? all.length : all.lastIndexOf(NEWLINE) + 1;
      const whole = all.length - end > MAX_PART ? all.length : end;
      const [now, rest] = [all.subarray(0, whole), all.slice(whole)];
      if (bytes.length === 0 && now.length === 0) return;
      const { count, tail } = this.#place;
      const lines = [...logLines(now, new Date().toISOString())];
      if (lines.length > 0) {
        await Deno.writeFile(this.path, Buffer.concat(lines), { append: true, mode: 0o600 });
        await rotateLog(this.path, MAX_LOG, () => Promise.resolve());
      }
      this.#rest = rest;
      const seen = Buffer.concat([Uint8Array.fromBase64(tail), bytes]);
      this.#place = {
        ...this.#place,
        count: count + bytes.length,
        tail: seen.subarray(-TAIL).toBase64(),
      };
      // Of a line without its end the next server reads the beginning again.
      const written = { ...this.#place, count: this.#place.count - rest.length };
      written.tail = seen.subarray(0, seen.length - rest.length).subarray(-TAIL).toBase64();
      await Deno.writeTextFile(this.#placePath, JSON.stringify(written), { mode: 0o600 });
    });
  }
}
