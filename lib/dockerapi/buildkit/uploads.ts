/** Archives that docker's client sends beside its build (`docker build - < context.tar` before docker 23). */
import { SvcError } from "../../base/errors.ts";
import type { Answer, Call } from "../request.ts";

/** Milliseconds for which the archive and the build wait for each other. */
const PATIENCE_MS = 30_000;

interface Upload {
  body: PromiseWithResolvers<AsyncIterable<Uint8Array>>;
  read: PromiseWithResolvers<void>;
}

export class Uploads {
  /** What the id of such a call begins with; the build's id follows. */
  static readonly prefix = "upload-request:";
  readonly #waiting = new Map<string, Upload>();

  #upload(id: string): Upload {
    let upload = this.#waiting.get(id);
    if (!upload) {
      upload = { body: Promise.withResolvers(), read: Promise.withResolvers() };
      this.#waiting.set(id, upload);
      const late = new SvcError("timeout", "Cannot read the context: its other half did not come");
      const give = upload;
      const timer = setTimeout(() => {
        give.body.reject(late);
        give.read.reject(late);
        this.#waiting.delete(id);
      }, PATIENCE_MS);
      const known = () => clearTimeout(timer);
      upload.body.promise.then(known, known);
      upload.read.promise.catch(() => {});
    }
    return upload;
  }

  /** Answers the call with the archive, once the build has read it. */
  async give(id: string, call: Call): Promise<Answer> {
    const upload = this.#upload(id.slice(Uploads.prefix.length));
    upload.body.resolve(call.body());
    call.signal.addEventListener("abort", () => upload.read.resolve(), { once: true });
    await upload.read.promise;
    return { text: "" };
  }

  /** The archive of the build with that id. */
  async *take(id: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const { body, read } = this.#upload(id);
    try {
      for await (const chunk of await body.promise) {
        signal.throwIfAborted();
        yield chunk;
      }
    } finally {
      read.resolve();
      this.#waiting.delete(id);
    }
  }
}
