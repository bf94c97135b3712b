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
import { deployVolumes } from "./deploy_volumes.ts";
import { deployFiles } from "./deploy_files.ts";
import { deployPrivileges } from "./deploy_privileges.ts";

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
}

/** An ability, or a field of the spec that has to be honoured: "spec.restart". */
export type Need = Ability | `spec.${string}`;

/** What engines have beside the abilities, unless the suite says why not. */
const USUAL = {
  oom: "a death for want of memory is told",
  "attach.end": "the end of what one client types is the end of the input",
  "files.holes": "holes of copied files stay holes",
  "files.linked": "a copied file with several names keeps setuid and setgid",
  "files.memory": "what is mounted in memory is copied too",
  "files.whole": "a copied file takes another's place once it is whole",
  "exec.groups": "a command of another user has the groups of groupAdd",
};

type Ability = keyof DeployCaps | keyof typeof USUAL;

/** A test that is left out, with the reason, where the backend has not what it needs. */
export type Test = (title: string, needs: readonly Need[], fn: () => Promise<void>) => void;

/** A test of a part that only backends run which have all it needs. */
export type OwnTest = (title: string, fn: () => Promise<void>) => void;

export interface DeployFixture extends AsyncDisposable {
  image: string;
  /** Opens the backend as a server does that starts, always on the same data. */
  open(permitted: readonly string[]): Promise<DeployBackend>;
}

export interface DeploySuite<Fixture extends DeployFixture> {
  name: string;
  ignore?: boolean;
  /** The backend's own list. */
  fields: FieldRules;
  /** Why the engine has not an ability that tests of the contract need; an ability that it has is not here. */
  lacks: Partial<Record<Ability, string>>;
  open(): Promise<Fixture>;
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
];

export function deployContract<Fixture extends DeployFixture>(suite: DeploySuite<Fixture>): void {
  Deno.test({
    name: `deploy backend contract: ${suite.name}`,
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
          fields: suite.fields,
        };
        const tests: Deno.TestStepDefinition[] = [];
        const test: Test = (title, needs, fn) => {
          const why = needs.map((need) => lacking(need, backend, suite)).find((why) => why);
          tests.push(why ? { name: `${title}: ${why}`, ignore: true, fn } : { name: title, fn });
        };
        for (const part of PARTS) part(test, under);
        suite.own?.((title, fn) => test(title, [], fn), under, fixture);
        for (const step of tests) await t.step(step);
      } finally {
        await backend[Symbol.asyncDispose]();
      }
    },
  });
}

/** Why a test is left out that needs this; undefined: it is not. */
export function lacking(
  need: Need,
  { caps }: DeployBackend,
  { fields, lacks }: Pick<DeploySuite<DeployFixture>, "fields" | "lacks">,
): string | undefined {
  if (need.startsWith("spec.")) {
    const rule = ruleAt(fields, need.slice("spec.".length));
    assert.ok(rule, `${need} is not a field`);
    return typeof rule === "object" && "told" in rule ? `${need}: ${rule.told}` : undefined;
  }
  if (need in USUAL) {
    const why = lacks[need as keyof typeof USUAL];
    return why && `no ${need}: ${why}`;
  }
  const ability = need as keyof DeployCaps;
  const reason = lacks[ability];
  if (caps[ability]) {
    assert.equal(reason, undefined, `${ability} is there: the reason why it is not has to go`);
    return undefined;
  }
  assert.ok(reason, `${ability} is not there: say why in "lacks"`);
  return `no ${ability}: ${reason}`;
}
