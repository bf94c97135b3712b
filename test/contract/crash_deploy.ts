/**
 * A server that is killed at each step of each change of a deployment. The next server finds the deployment as it
 * was or as it was to be, whole, and makes it so when it is asked again; nothing else is left.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { isDeepStrictEqual as equal } from "node:util";
import type { DeploySpec } from "../../lib/api/deploy_spec.ts";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import { freePort } from "../fixtures/free_port.ts";
import { eventually } from "../waits.ts";
import { execute, quickSpec } from "./deploy_tools.ts";

export type EngineKind = "bare" | "containerd" | "dockerhost" | "incus" | "podman";

/** What the server that is killed does. */
export interface Act {
  kind: "apply" | "start" | "stop" | "restart" | "delete";
  /** What is applied. */
  spec?: DeploySpec;
  /** An earlier server was killed at it: the steps count from the opening on, which recovers. */
  again?: boolean;
}

/** What there is on the host of deployments, in numbers. */
export type Found = Record<string, number>;

/** One way of counting the steps of a server. */
export interface Steps {
  name: string;
  /** Has a server do it that is killed at that step; false where it was killed. */
  run(what: Act, step: number): Promise<boolean>;
}

export interface CrashUnderTest {
  image: string;
  /** What the engine under test takes of the usual spec otherwise. */
  more?: Record<string, unknown>;
  open(): Promise<DeployBackend>;
  steps: readonly Steps[];
  found(): Promise<Found>;
  /** With so many instances, of which so many run. */
  expected(instances: number, running: number): Found;
}

/** The deployment, as far as it is whole. Undefined: there is none. */
type State = { version: string; replicas: number; runs: boolean } | undefined;

const NAME = "web";
const RUNNING = ["running", "healthy"];
/**
 * The server is killed at each step, or at some of each change: a kill takes seconds. What svc does itself is the same
 * with Docker, podman and Incus: without this, only Docker has its turn.
 */
export const EACH = Deno.env.get("SVC_TEST_EACH_STEP") !== undefined;
/** With each step: the next servers are let be in turn, or killed at a step before this one. */
const NEXT = 4;
/** No change has as many steps. */
const MOST = 500;

const SERVER = join(import.meta.dirname!, "crash_server.ts");
const CONFIG = join(import.meta.dirname!, "../../deno.json");

/** The program of a server that does it with the engine's backend. `step`: it ends itself before that step. */
export const serverCommand = (engine: EngineKind, place: unknown, what: Act, step?: number) => [
  ...[Deno.execPath(), "run", "-A", "-q", "--no-check", "--config", CONFIG, SERVER],
  JSON.stringify({ engine, place, what, step }),
];

/** Steps in files and programs of the server's own. */
export function ownSteps(engine: EngineKind, place: unknown): Steps {
  return {
    name: "changes of files",
    async run(what, step) {
      const [program, ...args] = serverCommand(engine, place, what, step);
      const { success, signal } = await new Deno.Command(program, {
        args,
        stdin: "null",
        stdout: "inherit",
        stderr: "inherit",
      }).spawn().status;
      assert.ok(success || signal === "SIGKILL", "the server fails by itself");
      return success;
    },
  };
}

interface Scenario {
  title: string;
  /** Of the deployment before: absent, there is none. "slow": it is not restarted, and takes time to stop. */
  from?: { runs?: boolean; restart: "always" | "no" | "slow" };
  act: Act["kind"];
  /** How many are applied. */
  replicas?: number;
  /** Where some steps are enough: which, of which kind, and that at which the next server is killed too. */
  samples: [step: number, kind: number, next?: number][];
}

const SCENARIOS: readonly Scenario[] = [
  { title: "a first deployment", act: "apply", samples: [[5, 1]] },
  { title: "a replacement", from: { restart: "always" }, act: "apply", samples: [[9, 0, 1]] },
  {
    title: "a replacement of what stops slowly",
    from: { restart: "slow" },
    act: "apply",
    samples: [[15, 1]],
  },
  {
    title: "fewer replicas",
    from: { restart: "always" },
    act: "apply",
    replicas: 1,
    samples: [[3, 2]],
  },
  { title: "a stop", from: { restart: "always" }, act: "stop", samples: [[1, 0, 1]] },
  {
    title: "a start",
    from: { restart: "no", runs: false },
    act: "start",
    samples: [[1, 0], [4, 1]],
  },
  { title: "a restart", from: { restart: "slow" }, act: "restart", samples: [[3, 0], [6, 1]] },
  { title: "a removal", from: { restart: "no" }, act: "delete", samples: [[2, 1]] },
];

/** The step of a server, and of the next one where that is killed too. */
type Kill = [step: number, next?: number];

class Crashes {
  readonly #under: CrashUnderTest;
  readonly #port = freePort();
  #count = 0;

  constructor(under: CrashUnderTest) {
    this.#under = under;
  }

  #spec(version: string, replicas = 2, restart = "always"): DeploySpec {
    return quickSpec(NAME, this.#under.image, {
      replicas,
      // Process 1, which does not heed SIGTERM.
      ...restart === "slow"
        ? { restart: "no", stopSignal: "SIGTERM", stopGracePeriod: "1s" }
        : { restart },
      env: { VERSION: version },
      ports: [`127.0.0.1:${this.#port}:8080`],
      networks: ["front", "back"],
      volumes: ["crash-data:/data"],
      healthcheck: { test: "true", interval: "200ms", startInterval: "100ms" },
      ...this.#under.more,
    });
  }

  async #answers(): Promise<boolean> {
    try {
      using connection = await Deno.connect({ hostname: "127.0.0.1", port: this.#port });
      await connection.write(new TextEncoder().encode("GET / HTTP/1.0\r\n\r\n"));
      return /hello from busybox/.test(await new Response(connection.readable).text());
    } catch {
      return false;
    }
  }

  /** The deployment and what there is of it; a state that is not whole is no state. */
  async #look(backend: DeployBackend) {
    const { found: count, expected } = this.#under;
    const status = await backend.status(NAME);
    const spec = await backend.spec(NAME);
    const found = await count();
    if (!status || !spec) {
      // Its port can be taken again.
      Deno.listen({ hostname: "127.0.0.1", port: this.#port }).close();
      return { seen: { status, found }, whole: equal(found, expected(0, 0)), state: undefined };
    }
    const running = status.instances.filter(({ state }) => RUNNING.includes(state));
    const runs = status.state === "running";
    const versions = await Promise.all(running.map(async ({ id }) => {
      const command = ["sh", "-c", "echo $VERSION"];
      return (await execute(backend, NAME, { command, instance: id })).stdout.trim();
    }));
    const { env: { VERSION: version }, replicas } = spec;
    const state: State = { version, replicas, runs };
    const answers = await this.#answers();
    const seen = { status: JSON.stringify(status), found, versions, answers, spec: state };
    const whole = status.instances.length === replicas &&
      running.length === (runs ? replicas : 0) && versions.every((one) => one === version) &&
      answers === runs && (runs || status.state === "stopped") &&
      equal(found, expected(replicas, running.length));
    return { seen, whole, state };
  }

  /** One of these states, whole, by a server of its own. */
  async #find(states: State[], then = async (_backend: DeployBackend) => {}): Promise<State> {
    await using backend = await this.#under.open();
    let last: unknown;
    const { state } = await eventually("it is whole", async () => {
      const { seen, whole, state } = await this.#look(backend);
      last = seen;
      return whole && states.some((one) => equal(one, state)) && { state };
    }).catch((error) => {
      const words = Deno.inspect({ last, states, expected: this.#under.expected(2, 2) }, {
        depth: 6,
        strAbbreviateSize: 10_000,
      });
      throw new Error(words, { cause: error });
    });
    await then(backend);
    return state;
  }

  /** What the scenario begins with. */
  async #prepare({ from }: Scenario, now: State): Promise<State> {
    if (from === undefined) {
      if (now) await this.#find([now], async (backend) => void await backend.delete(NAME));
      return await this.#find([undefined]);
    }
    const { runs = true, restart } = from;
    const version = `${restart}-${++this.#count}`;
    const wanted: State = { version, replicas: 2, runs };
    const fits = now?.replicas === 2 && now.version.startsWith(`${restart}-`);
    if (fits && now.runs === runs) return now;
    await this.#find([now], async (backend) => {
      if (!fits) await backend.apply(this.#spec(version, 2, restart));
      if (fits || !runs) await backend.power(NAME, runs ? "start" : "stop");
    });
    return await this.#find([fits ? { ...now, runs } : wanted]);
  }

  async #killed(scenario: Scenario, { run }: Steps, [step, next]: Kill, now: State) {
    const { act, replicas = 2, from } = scenario;
    const before = await this.#prepare(scenario, now);
    const restart = from?.restart ?? "always";
    const version = replicas === 2 ? `${restart}-${++this.#count}` : before!.version;
    const spec = act === "apply" ? this.#spec(version, replicas, restart) : undefined;
    const after: State = spec
      ? { version, replicas, runs: true }
      : act === "delete"
      ? undefined
      : { ...before!, runs: act !== "stop" };
    const passed = await run({ kind: act, spec }, step);
    if (!passed && next) await run({ kind: act, spec, again: true }, next);
    const found = await this.#find(passed ? [after] : [before, after], async (backend) => {
      if (spec) await backend.apply(spec);
    });
    return { passed, now: spec ? await this.#find([after]) : found };
  }

  /** From that step on, until the server passes through, or at that step alone: gives what it ended with. */
  async run(scenario: Scenario, steps: Steps, first: Kill, now: State): Promise<State> {
    for (let [step, next] = first;; step++) {
      if (EACH) next = step % NEXT;
      try {
        const killed = await this.#killed(scenario, steps, [step, next], now);
        now = killed.now;
        if (killed.passed || !EACH) return now;
      } catch (error) {
        const then = next ? `, and the next server at step ${next}` : "";
        throw new Error(`killed at step ${step}${then}`, { cause: error });
      }
      assert.ok(step < MOST, "it ends");
    }
  }

  /** Removes the deployment; nothing is left. */
  async end(now: State): Promise<void> {
    if (now) await this.#find([now], async (backend) => void await backend.delete(NAME));
    await this.#find([undefined]);
  }
}

export async function deployCrash(t: Deno.TestContext, under: CrashUnderTest): Promise<void> {
  const crashes = new Crashes(under);
  let now: State;
  const only = Deno.env.get("SVC_TEST_SCENARIO") ?? "";
  for (const scenario of SCENARIOS) {
    const kills = EACH
      ? under.steps.map((steps) => ({ kill: [1] as Kill, steps }))
      : scenario.samples.map(([step, kind, next]) => ({
        kill: [step, next] as Kill,
        steps: under.steps[kind % under.steps.length],
      }));
    for (const { kill, steps } of kills) {
      const title = `${scenario.title}: ${steps.name}`;
      if (!title.includes(only)) continue;
      // The others begin with what it has left.
      const passed = await t.step(title, async () => {
        now = await crashes.run(scenario, steps, kill, now);
      });
      if (!passed) return;
    }
  }
  await crashes.end(now);
}
