/**
 * Errors that nobody awaits: a rejected promise of one held thing ends that thing's attempt, and no other's. One
 * that belongs to nothing is only told: the agent goes on.
 */
import { AsyncLocalStorage } from "node:async_hooks";

const owner = new AsyncLocalStorage<(error: unknown) => void>();

/** Runs `work`; rejections in it, or in what it began, that nobody handles go to `fail`. */
export function within<T>(fail: (error: unknown) => void, work: () => T): T {
  return owner.run(fail, work);
}

/** From now on unhandled errors do not end the process, until the result is disposed of. */
export function catchUnhandled(tell: (error: unknown) => void): Disposable {
  const take = (event: Event, error: unknown) => {
    event.preventDefault();
    tell(error);
    owner.getStore()?.(error);
  };
  const rejected = (event: PromiseRejectionEvent) => take(event, event.reason);
  const thrown = (event: ErrorEvent) => take(event, event.error);
  addEventListener("unhandledrejection", rejected);
  addEventListener("error", thrown);
  return {
    [Symbol.dispose]() {
      removeEventListener("unhandledrejection", rejected);
      removeEventListener("error", thrown);
    },
  };
}
