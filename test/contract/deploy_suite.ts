/**
 * The contract of deploy backends (lib/deploy/backend.ts), as the test file of a backend calls it. What it asks
 * for can be had from any engine, wherever that runs: a host's processes, folders and addresses are asked for
 * only by the parts that host engines add (host_*.ts, bare_*.ts).
 */
import assert from "node:assert/strict";
import type { DeployBackend, DeployCaps } from "../../lib/deploy/backend.ts";
import { type FieldRules, ruleAt } from "../../lib/deploy/fields.ts";
import { deployAttach } from "./deploy_attach.ts";
import { deployBackendContract } from "./deploy_backend.ts";
import { deployDetails } from "./deploy_details.ts";
import { deployEvents } from "./deploy_events.ts";
import { deployExec } from "./deploy_exec.ts";
import { deployFields } from "./deploy_fields.ts";
import { deployImages } from "./deploy_images.ts";
import { deploySignals } from "./deploy_signals.ts";
import { deployStats } from "./deploy_stats.ts";
import { deployUpdate } from "./deploy_update.ts";
import { deployUntil } from "./deploy_until.ts";
import { deployVolumes } from "./deploy_volumes.ts";
import { deployFiles } from "./deploy_files.ts";
import { deployPrivileges } from "./deploy_privileges.ts";
import { type Engine, type EngineName, ENGINES } from "./deploy_engines.ts";

export interface DeployBackendUnderTest {
  backend: () => DeployBackend;
  /**
   * A restart of the server: lets go of the workloads and opens the same data again. `between` is run
   * while there is no server; the next one permits these kinds of privilege, none if absent.
   */
  reopen: (between?: () => Promise<void>, permitted?: readonly string[]) => Promise<void>;
  /** Name of an image of busybox (test/peers/base_image.ts) whose command serves HTTP on 8080. */
  image: string;
  fields: FieldRules;
  lacks: Engine["lacks"];
}

/** An ability, or a field of the spec that has to be honoured: "spec.restart". */
export type Need = Ability | `spec.${string}`;

/** What engines have beside the abilities, unless the suite says why not. */
const USUAL = {
  dial: "a connection to a port of an instance",
  folders: "the server sees the folders of the engine's host that it mounts",
  groups: "limits and counters of what an instance uses",
  oom: "a death for want of memory is told",
  "attach.end": "the end of what one client types is the end of the input",
  "attach.pipe": "the input of a main process without a terminal",
  "attach.size": "a terminal that somebody is attached to has their terminal's size",
  "attach.stays": "the input stays when somebody who was attached leaves",
  "files.changes":
    "what a workload changed in its image's files is told, and its root is copied out",
  "files.beside": "files go to what is writable beside what is read-only, of a stopped container",
  "files.holes": "holes of copied files stay holes",
  "files.linked": "a copied file with several names keeps setuid and setgid",
  "files.links": "a link itself is told and copied",
  "files.owners": "what is copied out keeps its owners",
  "files.memory": "what is mounted in memory is copied too",
  "files.same": "several names of a copied file are one file",
  "files.special": "pipes are copied, and links with their owners and times",
  "files.whole": "a copied file takes another's place once it is whole",
  "env.lines": "values of several lines in the environment",
  "processes.host": "a workload in the host's process namespace can be stopped",
  "network.host": "a workload in the host's own network",
  "logs.bytes": "a log is what was printed, byte by byte",
  "logs.streams": "a log tells standard error from standard output",
  "exec.groups": "a command of another user has the groups of groupAdd",
};

export type Ability = keyof DeployCaps | keyof typeof USUAL;

/** A test that is left out, with the reason, where the backend has not what it needs. */
export type Test = (title: string, needs: readonly Need[], fn: () => Promise<void>) => void;

/** A test of a part that only backends run which have all it needs. */
export type OwnTest = (title: string, fn: () => Promise<void>, needs?: readonly Need[]) => void;

export interface DeployFixture extends AsyncDisposable {
  image: string;
  /** Opens the backend as a server does that starts, always on the same data. */
  open(permitted: readonly string[]): Promise<DeployBackend>;
}

export interface DeploySuite<Fixture extends DeployFixture> {
  /** What it lacks is in {@linkcode ENGINES}. */
  name: EngineName;
  /** How the server reaches it, where that is not the usual way: "by TLS". */
  way?: string;
  /** What this host does not let it have, of what it has elsewhere. */
  lacks?: Engine["lacks"];
  ignore?: boolean;
  open(): Promise<Fixture>;
  /** Default: all parts of the contract. */
  parts?: readonly ((test: Test, under: DeployBackendUnderTest) => void)[];
  /** The backend's own parts, after the contract's. */
  own?: (test: OwnTest, under: DeployBackendUnderTest, fixture: Fixture) => void;
}

const PARTS = [
  deployBackendContract,
  deployEvents,
  deployExec,
  deployAttach,
  deployFiles,
  deploySignals,
  deployStats,
  deployVolumes,
  deployImages,
  deployPrivileges,
  deployDetails,
  deployFields,
  deployUntil,
  deployUpdate,
];

/** The number of the contract's tests, and the titles of those that are left out on an engine, by reason. */
export function leftOutOn(engine: Engine): { count: number; titles: Map<string, string[]> } {
  const titles = new Map<string, string[]>();
  let count = 0;
  const test: Test = (title, needs) => {
    count++;
    const why = needs.map((need) => leftOut(need, engine)).find((why) => why);
    if (why) titles.set(why, [...titles.get(why) ?? [], title]);
  };
  const none = () => assert.fail("there is no backend");
  const under = { backend: none, reopen: none, image: "", ...engine };
  for (const part of PARTS) part(test, under);
  return { count, titles };
}

export function deployContract<Fixture extends DeployFixture>(suite: DeploySuite<Fixture>): void {
  const engine: Engine = ENGINES[suite.name];
  const here = (need: Need) => suite.lacks?.[need as Ability];
  Deno.test({
    name: ["deploy backend contract:", suite.name, suite.way].filter(Boolean).join(" "),
    ignore: suite.ignore,
    // A backend's workers may live as long as the process.
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async (t) => {
      await using fixture = await suite.open();
      let backend = await fixture.open([]);
      try {
        const under: DeployBackendUnderTest = {
          backend: () => backend,
          reopen: async (between, permitted = []) => {
            await backend[Symbol.asyncDispose]();
            await between?.();
            backend = await fixture.open(permitted);
          },
          image: fixture.image,
          ...engine,
        };
        const tests: Deno.TestStepDefinition[] = [];
        const test: Test = (title, needs, fn) => {
          const why = needs.map((need) => here(need) ?? lacking(need, backend, engine))
            .find((why) => why);
          // `scripts/test` shows the names of what is left out.
          const name = why ? `${title} (${suite.name}: ${why})` : title;
          tests.push({ name, ignore: why !== undefined, fn });
        };
        for (const part of suite.parts ?? PARTS) part(test, under);
        suite.own?.((title, fn, needs = []) => test(title, needs, fn), under, fixture);
        for (const step of tests) await t.step(step);
      } finally {
        await backend[Symbol.asyncDispose]();
      }
    },
  });
}

/** Why a test is left out that needs this, by what is said of the engine; undefined: it is not. */
export function leftOut(need: Need, { fields, lacks }: Engine): string | undefined {
  if (need.startsWith("spec.")) {
    const rule = ruleAt(fields, need.slice("spec.".length));
    assert.ok(rule, `${need} is not a field`);
    return typeof rule === "object" && "told" in rule ? `${need}: ${rule.told}` : undefined;
  }
  const why = lacks[need as Ability];
  return why && `no ${need}: ${why}`;
}

/** The same, checked by what the backend has. */
export function lacking(need: Need, { caps }: DeployBackend, engine: Engine): string | undefined {
  const why = leftOut(need, engine);
  if (need.startsWith("spec.") || need in USUAL) return why;
  if (caps[need as keyof DeployCaps]) {
    assert.equal(why, undefined, `${need} is there: the reason why it is not has to go`);
  } else assert.ok(why, `${need} is not there: say why in "lacks"`);
  return why;
}
