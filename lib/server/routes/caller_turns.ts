/** What the server does a bounded number of at once, for all callers: one of them must not have all of it. */
import { SvcError } from "../../base/errors.ts";
import type { Access } from "../access.ts";
import type { Context, Identity, Route } from "../route.ts";

/** The stream, with what is to be done when it has ended or nobody reads it any more. */
function ending(stream: ReadableStream<Uint8Array>, over: () => void) {
  const reader = stream.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) return controller.enqueue(value);
        controller.close();
      } catch (error) {
        controller.error(error);
      }
      over();
    },
    cancel(reason) {
      over();
      return reader.cancel(reason);
    },
  }, { highWaterMark: 0 });
}

export class CallerTurns {
  readonly #under = new Map<string, number>();
  readonly #access: Pick<Access, "perIdentity">;
  readonly #most: number;

  /** `most`: of one caller, where a policy tells callers apart. */
  constructor(access: Pick<Access, "perIdentity">, most: number) {
    this.#access = access;
    this.#most = most;
  }

  /** `attempt`: "copy files". Throws `unavailable`. What it gives ends the turn, once. */
  take({ method, subject }: Identity, attempt: string): () => void {
    const key = `${method} ${subject}`;
    const count = this.#under.get(key) ?? 0;
    if (this.#access.perIdentity && count >= this.#most) {
      throw new SvcError("unavailable", `Cannot ${attempt}: ${count} clients of yours do so`, {
        help: "wait until one has ended",
      });
    }
    this.#under.set(key, count + 1);
    let over = false;
    return () => {
      if (over) return;
      over = true;
      const left = this.#under.get(key)! - 1;
      if (left > 0) this.#under.set(key, left);
      else this.#under.delete(key);
    };
  }

  /** The handler, which has a turn until its answer is sent; an answer that is no archive is there at once. */
  of(
    handler: (context: Context) => Promise<Response>,
    { attempt, archive }: { attempt: string; archive: string },
  ): Route["handler"] {
    if (!this.#access.perIdentity) return handler;
    return async (context) => {
      const over = this.take(context.identity, attempt);
      try {
        const answer = await handler(context);
        if (!answer.body || answer.headers.get("content-type") !== archive) {
          over();
          return answer;
        }
        const body = ending(answer.body, over) as ReadableStream<Uint8Array<ArrayBuffer>>;
        return new Response(body, answer);
      } catch (error) {
        over();
        throw error;
      }
    };
  }
}
