/**
 * Worker that plans. A Dockerfile may come from anybody, and reading it may take long. The Worker fetches
 * nothing: it asks the event loop for images.
 */
import { parentPort } from "node:worker_threads";
import { asSvcError, SvcError } from "../../base/errors.ts";
import type { ImageResolver, ResolvedImage } from "../../oci/resolver.ts";
import type { Platform } from "../../oci/types.ts";
import { Ignore } from "../parse/ignore.ts";
import { parseDockerfile } from "../parse/parse.ts";
import type { BuildPlan } from "./graph.ts";
import { planBuild, type PlannedContext } from "./plan.ts";
import { type FromPlanWorker, type PlanJob, type ToPlanWorker, wireError } from "./plan_wire.ts";
import { PlannedTree } from "./planned_tree.ts";

const port = parentPort!;
const post = (message: FromPlanWorker) => port.postMessage(message);

let asked = 0;
const waiting = new Map<number, PromiseWithResolvers<ResolvedImage>>();

function resolve(name: string, platform: Platform): Promise<ResolvedImage> {
  const ask = asked++;
  const answer = Promise.withResolvers<ResolvedImage>();
  waiting.set(ask, answer);
  post({ type: "resolve", ask, name, platform });
  return answer.promise;
}

async function plan(job: PlanJob, line: Int32Array): Promise<BuildPlan[]> {
  const { text, file, ignore, platforms, contexts, ...rest } = job;
  const onLine = (at: number) => void Atomics.store(line, 0, at);
  const dockerfile = parseDockerfile(text, { file, onLine });
  const checks = { text, ignore: new Ignore(ignore.patterns, ignore.file) };
  const planned = new Map(
    contexts.map(([name, context]): [string, PlannedContext] => [
      name,
      "image" in context ? context : { ...context, tree: new PlannedTree({ kind: "named", name }) },
    ]),
  );
  const images = { resolve: (name, { platform } = {}) => resolve(name, platform!) } as Pick<
    ImageResolver,
    "resolve"
  >;
  const plans: BuildPlan[] = [];
  for (const platform of platforms) {
    plans.push(
      await planBuild({ ...rest, dockerfile, checks, platform, images, contexts: planned, onLine }),
    );
  }
  return plans;
}

port.on("message", (message: ToPlanWorker) => {
  if (message.type === "plan") {
    plan(message.job, new Int32Array(message.line)).then(
      (plans) => post({ type: "planned", plans }),
    ).catch((error) => post({ type: "failed", error: wireError(asSvcError(error)) }));
    return;
  }
  const answer = waiting.get(message.ask)!;
  waiting.delete(message.ask);
  if (message.type === "image") {
    const { ask, name, config } = message;
    // The fields that a plan reads. The event loop finds the whole image by the number `ask`.
    answer.resolve({ ask, name, config } as unknown as ResolvedImage);
  } else {
    const { code, message: text, help, detail } = message.error;
    answer.reject(new SvcError(code, text, { help, detail }));
  }
});
