import assert from "node:assert/strict";
import { validateDeploySpec } from "../api/deploy_spec_parse.ts";
import type { DeploymentStatus } from "../api/deployment.ts";
import { createLogger, silent } from "../base/log.ts";
import type { Attachments, DeployBackend, DeployCaps } from "./backend.ts";
import { openDeployments } from "./deployments.ts";
import { type DeployService, requireCallerMounts } from "./services.ts";

const SPEC = validateDeploySpec({ name: "web", image: "app" });
const spec = (name: string) => ({ ...SPEC, name });

const status = (name: string, createdAt = "2026-01-01T00:00:00Z"): DeploymentStatus => ({
  ...{ name, state: "running", image: "app", ports: [], instances: [], warnings: [] },
  ...{ createdAt, updatedAt: createdAt },
});

/** Services and an engine that note what is asked of them; the step of that name fails. */
class Scene {
  readonly steps: string[] = [];
  readonly attached: (Attachments | undefined)[] = [];
  /** "claim b": what fails. */
  readonly failing = new Set<string>();
  readonly known: DeploymentStatus[] = [];

  #step(what: string): void {
    this.steps.push(what);
    if (this.failing.has(what)) throw new Error(`no ${what}`);
  }

  service(name: string, contribution?: Attachments): DeployService {
    return {
      name,
      claim: (spec) => {
        this.#step(`claim ${name}`);
        if (spec.name === "refused") throw new Error(`no claim of ${name}`);
        return {
          contribute: () => {
            this.#step(`contribute ${name}`);
            return Promise.resolve(contribution ?? {});
          },
          commit: () => this.#step(`commit ${name}`),
          release: () => this.#step(`release ${name}`),
        };
      },
      describe: (of) => name === "b" ? { ingress: [], error: `${name} of ${of}` } : {},
      removed: () => this.#step(`removed ${name}`),
    };
  }

  engine(caps: DeployCaps = {}): DeployBackend {
    return {
      name: "fake",
      caps,
      apply: (spec, attachments) => {
        this.attached.push(attachments);
        this.#step("apply");
        return Promise.resolve({ action: "created", deployment: status(spec.name) });
      },
      status: (name) => Promise.resolve(name === "nobody" ? undefined : status(name)),
      list: () => Promise.resolve([...this.known]),
      spec: (name) => Promise.resolve(name === "half-made" ? undefined : spec(name)),
      delete: () => {
        this.#step("delete");
        return Promise.resolve(true);
      },
      power: (name) => Promise.resolve(status(name)),
    } as Partial<DeployBackend> as DeployBackend;
  }

  open(log = silent) {
    const services = ["a", "b", "c"].map((name) => this.service(name));
    return openDeployments(this.engine(), services, log);
  }
}

Deno.test("services: every claim, then every contribution, the apply, every commit", async () => {
  const scene = new Scene();
  const deployments = await scene.open();
  const { action, deployment } = await deployments.apply(SPEC);
  assert.deepEqual(scene.steps, [
    ...["claim a", "claim b", "claim c", "contribute a", "contribute b", "contribute c"],
    ...["apply", "commit a", "commit b", "commit c"],
  ]);
  assert.deepEqual([action, deployment.ingress, deployment.error], ["created", [], "b of web"]);
  assert.deepEqual(scene.attached, [{}]);
});

Deno.test("services: what fails before the workload runs is undone, the last claim first", async () => {
  const before = ["claim a", "claim b", "claim c", "contribute a", "contribute b", "contribute c"];
  for (const [at, failing] of [...before, "apply"].entries()) {
    const scene = new Scene();
    scene.failing.add(failing);
    const deployments = await scene.open();
    await assert.rejects(deployments.apply(SPEC), { message: `no ${failing}` });
    const done = [...before, "apply"].slice(0, at + 1);
    const claimed = ["c", "b", "a"].slice(Math.max(0, 3 - at));
    assert.deepEqual(scene.steps, [...done, ...claimed.map((name) => `release ${name}`)], failing);
  }
});

Deno.test("services: a commit that fails is undone alone; the workload runs, the others commit", async () => {
  for (
    const [name, expected] of [
      ["a", ["commit a", "release a", "commit b", "commit c"]],
      ["b", ["commit a", "commit b", "release b", "commit c"]],
      ["c", ["commit a", "commit b", "commit c", "release c"]],
    ] as const
  ) {
    const scene = new Scene();
    scene.failing.add(`commit ${name}`);
    const deployments = await scene.open();
    await assert.rejects(deployments.apply(SPEC), { message: `no commit ${name}` });
    assert.deepEqual(scene.steps.slice(7), expected);
  }
});

Deno.test("services: an undo that fails keeps no other from its own, nor hides the reason", async () => {
  const lines: string[] = [];
  const log = createLogger({ level: "info", format: "json", write: (line) => lines.push(line) });
  const scene = new Scene();
  for (const step of ["apply", "release b"]) scene.failing.add(step);
  const deployments = await scene.open(log);
  await assert.rejects(deployments.apply(SPEC), { message: "no apply" });
  assert.deepEqual(scene.steps.slice(-3), ["release c", "release b", "release a"]);
  assert.match(lines.join(), /b did not release its claim.*"deployment":"web"/);
});

Deno.test("services: contributions become one; two of the same are refused, as is what the engine lacks", async () => {
  const able = { mounts: true, companion: true, ingressCertificates: true } as const;
  const mount = { source: "/srv/a", target: "/a" };
  const certificates = [{ hosts: ["a.test"], certificate: "PEM", key: "PEM" }];
  const both: Attachments[] = [
    { env: { A: "1" }, mounts: [mount], companion: { roles: { hub: 1 } } },
    { env: { B: "2" }, companion: { roles: { egress: {} } }, certificates },
  ];
  const apply = async (caps: DeployCaps, contributions: Attachments[]) => {
    const scene = new Scene();
    const services = contributions.map((one, at) => scene.service("ab"[at], one));
    const deployments = await openDeployments(scene.engine(caps), services, silent);
    await deployments.apply(SPEC).catch((error) => {
      assert.deepEqual(scene.attached, []);
      assert.ok(scene.steps.includes("release a"), "undone");
      throw error;
    });
    return scene.attached;
  };
  assert.deepEqual(await apply(able, both), [{
    env: { A: "1", B: "2" },
    mounts: [mount],
    companion: { roles: { hub: 1, egress: {} } },
    certificates,
  }]);
  const aside: Attachments[] = [{
    beside: "an endpoint",
    besideRoles: { credential: { port: 1 } },
  }];
  assert.deepEqual(await apply({ companion: true }, aside), [
    { companion: { roles: { credential: { port: 1 } } } },
  ]);
  assert.deepEqual(await apply({ companion: true, namespaces: true }, aside), [
    { beside: "an endpoint" },
  ]);
  const refused: [DeployCaps, Attachments[], string, RegExp][] = [
    [{}, aside, "unsupported", /with an endpoint: the fake backend lets nothing of svc run beside/],
    [able, [{ env: { A: "1" } }, { env: { A: "2" } }], "conflict", /a and b both add the .* A$/],
    [able, [{ mounts: [mount] }, { mounts: [mount] }], "conflict", /both add a mount at \/a$/],
    [able, [both[0], { companion: { roles: { hub: 2 } } }], "conflict", /both add the role hub$/],
    [able, [{ certificates }, { certificates }], "conflict", /both add certificates$/],
    [{ ...able, mounts: undefined }, both, "unsupported", /the fake backend cannot mount it/],
    [{ ...able, companion: undefined }, both, "unsupported", /with hub, egress: .*companion/],
    [{ ...able, ingressCertificates: undefined }, both, "unsupported", /with certificates:/],
    [able, [{ egress: { mode: "proxy", routes: ["deny"] } }], "unsupported", /egress mode proxy:/],
    [
      { ...able, egress: { modes: ["proxy"] } },
      [{ egress: { mode: "proxy", routes: ["cluster", "deny"] } }],
      "unsupported",
      /egress route cluster: the fake backend has no way straight out/,
    ],
  ];
  for (const [caps, contributions, code, message] of refused) {
    await assert.rejects(apply(caps, contributions), { code, message });
  }
});

Deno.test("services: they add to every status, and learn of removals and of what was there", async () => {
  const lines: string[] = [];
  const log = createLogger({ level: "info", format: "json", write: (line) => lines.push(line) });
  const scene = new Scene();
  scene.known.push(
    status("young", "2026-03-01T00:00:00Z"),
    status("half-made", "2026-02-02T00:00:00Z"),
    status("refused", "2026-02-01T00:00:00Z"),
  );
  const deployments = await scene.open(log);
  assert.deepEqual(scene.steps, [
    ...["claim a", "claim b", "claim c"],
    ...["claim a", "commit a", "claim b", "commit b", "claim c", "commit c"],
  ]);
  assert.match(lines.join("\n"), /a deployment's a is not served.*refused.*no claim of a/);
  assert.deepEqual((await deployments.list()).map(({ error }) => error), [
    ...["b of young", "b of half-made", "b of refused"],
  ]);
  assert.equal((await deployments.status("web"))?.error, "b of web");
  assert.equal(await deployments.status("nobody"), undefined);
  assert.equal((await deployments.power("web", "stop")).error, "b of web");
  scene.steps.length = 0;
  scene.failing.add("removed c");
  await assert.rejects(deployments.delete("web"), { message: "no removed c" });
  assert.deepEqual(scene.steps, ["delete", "removed c", "removed b", "removed a"]);
  scene.steps.length = 0;
  scene.failing.add("delete");
  await assert.rejects(deployments.delete("web"), { message: "no delete" });
  assert.deepEqual(scene.steps, ["delete"], "what is still there keeps what it has");
});

Deno.test("services: the callers' own files are mounted only where the engine can", () => {
  requireCallerMounts({ name: "one", caps: { mounts: true } });
  const refused = { code: "unsupported" };
  assert.throws(() => requireCallerMounts({ name: "two", caps: {} }), {
    ...refused,
    message: /the two backend cannot mount folders of the server/,
  });
  const noCallerMounts = { why: "they need SVC_SOME_REMOTE", help: "set it" };
  assert.throws(
    () => requireCallerMounts({ name: "three", caps: { mounts: true, noCallerMounts } }),
    { ...refused, message: /they need SVC_SOME_REMOTE/, help: "set it" },
  );
});
