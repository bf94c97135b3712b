/**
 * A proxy auto-configuration script in place of rules: `FindProxyForURL` gives the route. It is evaluated in a Worker
 * (pac_worker.ts) with a deadline; whatever goes wrong denies.
 */
import { isIP } from "node:net";
import type { EgressRoute } from "../api/egress.ts";
import { joinHostPort } from "../base/host_port.ts";
import { Mutex } from "../base/mutex.ts";
import { giveWorker, takeWorker } from "../base/worker_pool.ts";
import type { EgressPolicy, EgressTarget } from "./policy.ts";

export interface PacJob {
  script: string;
  /** Absent: only whether the script can be used. */
  ask?: { url: string; host: string; address?: string };
}

export type FromPacWorker =
  /** The evaluation begins: its deadline does. */
  | { type: "began" }
  | { type: "done"; answer?: string }
  /** `broken`: the machine may be damaged, and no other script gets it. */
  | { type: "failed"; why: string; broken: boolean };

/** Characters of a script, at most. */
const MAX_SCRIPT = 1 << 20;
/** Milliseconds of an evaluation. The machine's own count of steps ends nearly all of them long before. */
const DEADLINE_MS = 1000;
/** Milliseconds until the Worker is there. */
const START_MS = 60_000;
/** Evaluations of one script that may miss the deadline: later ones are not begun any more. */
const STRIKES = 2;
/** Decisions of one script that are kept. */
const KEPT = 1000;

/** One at a time, each script once: a hostile one holds up one Worker, never a processor each, nor the others. */
const turn = new Mutex();

class Late extends Error {}

/** The script's own failure. */
class Refusal extends Error {}

/** What the script answers. Throws a `Refusal` with why it cannot be used, and `Late`. */
function evaluate(job: PacJob, given = { strikes: 0 }): Promise<string | undefined> {
  return turn.run(async () => {
    if (given.strikes >= STRIKES) throw new Refusal("it took too long too often");
    const worker = takeWorker("pac");
    const { promise, resolve, reject } = Promise.withResolvers<string | undefined>();
    let whole = false;
    let timer = setTimeout(() => reject(new Error("the sandbox does not start")), START_MS);
    worker.onmessage = ({ data }: MessageEvent<FromPacWorker>) => {
      if (data.type === "done") {
        whole = true;
        return resolve(data.answer);
      }
      if (data.type === "failed") {
        whole = !data.broken;
        return reject(new Refusal(data.why));
      }
      clearTimeout(timer);
      timer = setTimeout(() => reject(new Late("it takes too long")), DEADLINE_MS);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      reject(new Error(event.message));
    };
    worker.postMessage(job);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      if (whole) giveWorker("pac", worker);
      else worker.terminate();
    }
  });
}

/**
 * The route of what `FindProxyForURL` answers: of its first entry, as there is one way out and no trying. `DIRECT`
 * is the cluster; `PROXY client|gateway|cluster` that route; another proxy is the caller's matter.
 */
export function routeOfAnswer(answer: string): EgressRoute {
  const [kind = "", place = "", ...more] = answer.split(";")[0].trim().split(/\s+/);
  const word = kind.toUpperCase();
  if (more.length > 0) return "deny";
  if (word === "DIRECT" && place === "") return "cluster";
  if (!/^(PROXY|HTTP|HTTPS|SOCKS[45]?)$/.test(word) || place === "") return "deny";
  if (word === "PROXY") {
    if (place === "client" || place === "gateway" || place === "cluster") return place;
    if (place === "deny") return "deny";
  }
  return "client";
}

/** Port 80 is http and 443 https, as browsers write them; what another port speaks is not known. */
function urlOf({ host, port }: EgressTarget): string {
  const name = isIP(host) === 6 ? `[${host}]` : host;
  if (port === 443) return `https://${name}/`;
  return port === 80 ? `http://${name}/` : `http://${joinHostPort(host, port)}/`;
}

class PacPolicy implements EgressPolicy {
  readonly asksAddress: boolean;
  readonly #script: string;
  readonly #kept = new Map<string, Promise<EgressRoute>>();
  readonly #missed = { strikes: 0 };
  readonly #own = new Mutex();

  constructor(script: string) {
    this.#script = script;
    this.asksAddress = /isInNet|dnsResolve|isResolvable/.test(script);
  }

  /** A script names nobody: it leads to no machine's own services. */
  names(): boolean {
    return false;
  }

  decide(target: EgressTarget): Promise<EgressRoute> {
    const { host, port, address } = target;
    const key = JSON.stringify([host, port, address]);
    const known = this.#kept.get(key);
    if (known) return known;
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size < KEPT) break;
      this.#kept.delete(oldest);
    }
    const decided = this.#evaluate({ url: urlOf(target), host, address }).catch((error) => {
      // The sandbox's failure, not the script's answer: asked again next time.
      if (!(error instanceof Refusal)) this.#kept.delete(key);
      if (error instanceof Late) this.#missed.strikes++;
      return "deny" as const;
    });
    this.#kept.set(key, decided);
    return decided;
  }

  async #evaluate(ask: PacJob["ask"]): Promise<EgressRoute> {
    const job = { script: this.#script, ask };
    const answer = await this.#own.run(() => evaluate(job, this.#missed));
    return routeOfAnswer(answer ?? "");
  }
}

/** Throws an `Error` for a script that cannot be read, or has no `FindProxyForURL`. */
export async function pacPolicy(script: string): Promise<EgressPolicy> {
  if (script.length > MAX_SCRIPT) throw new Error(`it is longer than ${MAX_SCRIPT} characters`);
  await evaluate({ script });
  return new PacPolicy(script);
}
