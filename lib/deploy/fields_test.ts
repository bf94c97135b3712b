import assert from "node:assert/strict";
import { validateDeploySpec } from "../api/deploy_spec_parse.ts";
import { type FieldRules, fieldWarnings, refuseIfStrict, ruleAt, type Told } from "./fields.ts";

const spec = (more: Record<string, unknown>) =>
  validateDeploySpec({ name: "web", image: "app", ...more });

const labels = { told: "no labels" };
const volumes: FieldRules["volumes"] = {
  name: "honoured",
  target: "honoured",
  size: { told: "no limits" },
  storageClass: "honoured",
  readOnly: "honoured",
  driver: { only: "local", check: (driver) => driver === "local" ? undefined : `no ${driver}` },
  driverOpts: "honoured",
  labels,
};
const tls: FieldRules["ingress"] = { told: "no ingress" };
const capAdd: FieldRules["capAdd"] = {
  only: "few",
  check: (name, { replicas }) => name === "NET_RAW" ? undefined : `${name} for ${replicas}`,
};
const rules = { volumes, capAdd, ingress: tls, privileged: labels } as unknown as FieldRules;

Deno.test("what is set and not done is told, with its place; unset and empty fields are not", () => {
  const full = spec({
    volumes: ["a:/a", { name: "b", target: "/b", size: "1Mi", driver: "nfs", labels: ["a=1"] }],
    capAdd: ["NET_RAW", "SYS_ADMIN"],
    ingress: { hosts: ["a.test"] },
    privileged: true,
  });
  assert.deepEqual(fieldWarnings(full, rules), [
    "volumes[1].size: no limits",
    "volumes[1].driver: no nfs",
    "volumes[1].labels: no labels",
    "capAdd[1]: SYS_ADMIN for 1",
    "ingress: no ingress",
    "privileged: no labels",
  ]);
  const empty = { ingress: { enabled: false, hosts: [] }, privileged: false, capAdd: [] };
  assert.deepEqual(
    fieldWarnings(spec({ ...empty, volumes: [{ name: "a", target: "/a", labels: {} }] }), rules),
    [],
  );
  assert.deepEqual(fieldWarnings(spec({}), rules), []);
});

Deno.test("the rule of a path is its own, or that of what it is in", () => {
  assert.equal(ruleAt(rules, "volumes[].labels"), labels);
  assert.equal(ruleAt(rules, "volumes"), undefined);
  assert.equal(ruleAt(rules, "ingress.tls.hosts"), tls);
  assert.equal(ruleAt(rules, "name"), undefined);
});

Deno.test("a list that lacks a field is none, nor one that takes a whole section as done", () => {
  const { labels: _labels, ...rest } = volumes;
  // @ts-expect-error: `volumes[].labels` is missing
  const short: FieldRules["volumes"] = rest;
  // @ts-expect-error: a field that is added to it would be taken as done too
  const whole: FieldRules["volumes"] = "honoured";
  const fields = { secretName: "honoured", hosts: "honoured" } as const;
  // @ts-expect-error: true is not a section: it needs an entry of its own
  const half: Exclude<FieldRules["ingress"], Told>["tls"] = fields;
  const full: typeof half = { "": "honoured", ...fields };
  // @ts-expect-error: there is no such field
  const long: FieldRules["volumes"] = { ...volumes, colour: "honoured" };
  assert.ok(short && whole && half && full && long);
});

Deno.test("strict refuses where there is something to warn of", () => {
  refuseIfStrict(spec({}), ["a: b"]);
  refuseIfStrict(spec({ strict: true }), []);
  assert.throws(() => refuseIfStrict(spec({ strict: true }), ["a: b"]), {
    code: "unsupported",
    message: /Cannot deploy web: a: b/,
  });
});
