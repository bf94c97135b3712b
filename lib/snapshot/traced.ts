/** SVC_SNAPSHOTTER_TRACE: tells of each call of a snapshotter in the log. */
import type { Logger } from "../base/log.ts";
import type { Snapshotter } from "./snapshotter.ts";

/** Names and ids in a call's arguments. */
const shown = (args: readonly unknown[]): string =>
  args.map((arg) => (arg as { id?: unknown } | undefined)?.id ?? arg)
    .filter((arg) => typeof arg === "string").join(" ");

/** The same snapshotter: each call is logged at its end, with its time in milliseconds. */
export function traced(snapshotter: Snapshotter, log: Logger): Snapshotter {
  const { driver } = snapshotter;
  return new Proxy(snapshotter, {
    get(target, name) {
      const member = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        const began = performance.now();
        const tell = (failed?: { error: unknown }) => {
          const ms = Math.round(performance.now() - began);
          log.info("snapshotter", { driver, call: String(name), of: shown(args), ms, ...failed });
        };
        const result = member.apply(target, args);
        if (result instanceof Promise) result.then(() => tell(), (error) => tell({ error }));
        else tell();
        return result;
      };
    },
  });
}
