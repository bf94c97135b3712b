/** Every field of a spec is done, or told, or refused: what every DeployBackend does with its list. */
import assert from "node:assert/strict";
import { deploySpecJsonSchema, fieldsOf, sectionOf } from "../../scripts/docs/spec/json_schema.ts";
import { parseDeploySpec } from "../../lib/api/deploy_spec_parse.ts";
import { sampleOf } from "../fixtures/spec_samples.ts";
import { fieldWarnings, refuseIfStrict, ruleAt } from "../../lib/deploy/fields.ts";
import { requirePermitted } from "../../lib/deploy/privileges.ts";
import type { DeployBackendUnderTest, Test } from "./deploy_suite.ts";
import { quickSpec } from "./deploy_tools.ts";

const schema = deploySpecJsonSchema();
/** "volumes[].labels" as it stands in a warning about the first volume. */
const concrete = (path: string) => path.replaceAll("[]", "[0]");

/** The line is of that field, or of a section that it is in. */
function isAbout(line: string, path: string): boolean {
  const of = line.slice(0, line.indexOf(":"));
  return path === of || path.startsWith(`${of}.`) || path.startsWith(`${of}[`);
}

export function deployFields(test: Test, under: DeployBackendUnderTest): void {
  const { backend, image, fields: rules } = under;
  const only = (path: string) => quickSpec("fields", image, sampleOf(schema, path));
  const permitted = (path: string) => {
    try {
      requirePermitted(only(path), []);
      return !path.startsWith("mounts");
    } catch {
      return false;
    }
  };
  /** Fields that are told of as such: not those of which a whole section is. */
  const told = [...fieldsOf(schema)].map(([path]) => path).filter((path) => {
    const rule = ruleAt(rules, path);
    const above = path.includes(".") && ruleAt(rules, path.slice(0, path.lastIndexOf(".")));
    return typeof rule === "object" && "told" in rule && rule !== above;
  });
  const about = (warnings: readonly string[], path: string) => {
    const rule = ruleAt(rules, path);
    assert.ok(typeof rule === "object" && "told" in rule);
    return warnings.includes(`${concrete(path)}: ${rule.told}`);
  };

  test("no field of a spec is passed over in silence", [], () => {
    for (const [path, field] of fieldsOf(schema)) {
      const spec = only(path);
      const rule = ruleAt(rules, path);
      // A section without a rule of its own is what the rules of its fields are.
      assert.ok(rule || sectionOf(field), `${path} has no entry`);
      if (!rule || typeof rule === "object" && "only" in rule) continue;
      const warnings = fieldWarnings(spec, rules);
      const reasons = warnings.filter((line) => isAbout(line, concrete(path)))
        .map((line) => line.slice(line.indexOf(": ") + 2));
      assert.deepEqual(reasons, rule === "honoured" ? [] : [rule.told], path);
      if (rule === "honoured") continue;
      const strict = () => refuseIfStrict({ ...spec, strict: true }, warnings);
      assert.throws(strict, { code: "unsupported" }, path);
    }
    return Promise.resolve();
  });

  test("what a deployment does not do is in its status; strict refuses it", [], async () => {
    // A relayed egress and networks exclude each other.
    const relayed = (path: string) => path.startsWith("egress.");
    const apart = told.some((path) => path.startsWith("networks"));
    const shown = told.filter((path) => permitted(path) && !(apart && relayed(path)));
    assert.ok(shown.length > 0);
    const all: Record<string, unknown> = {};
    for (const path of shown) merge(all, sampleOf(schema, path));
    const { strict: _strict, ...spec } = quickSpec("fields", image, all);
    try {
      await assert.rejects(backend().apply({ ...spec, strict: true }), (error: Error) => {
        for (const path of shown) assert.ok(error.message.includes(concrete(path)), path);
        return true;
      });
      assert.equal(await backend().status("fields"), undefined);
      await backend().apply(spec);
      const { warnings } = (await backend().status("fields"))!;
      for (const path of shown) assert.ok(about(warnings, path), path);
    } finally {
      await backend().delete("fields");
    }
  });

  test(
    "a spec with every field comes back as it was given, and is unchanged then",
    ["groups", "env.lines"],
    async () => {
      const all: Record<string, unknown> = {};
      for (const [path] of fieldsOf(schema)) {
        const part = sampleOf(schema, path);
        if (permitted(path) && !OURS.includes(path) && !excludesOthers(part)) merge(all, part);
      }
      const spec = quickSpec("fields", image, { ...all, ...running() });
      try {
        const { deployment } = await backend().apply(spec);
        for (const told of fieldWarnings(spec, rules)) {
          assert.ok(deployment.warnings.includes(told), told);
        }
        assert.deepEqual(deployment.instances.map(({ state }) => state), ["healthy"]);
        await under.reopen();
        const taken = await backend().spec("fields");
        assert.deepEqual(taken, spec);
        const text = JSON.stringify(taken);
        assert.equal((await backend().apply(parseDeploySpec(text))).action, "unchanged");
      } finally {
        await backend().delete("fields");
        await backend().caps.volumes?.remove("data");
      }
    },
  );

  test(
    "the example of the reference page runs, and asks for nothing that is not done",
    ["groups"],
    async () => {
      const file = new URL("../../examples/app.yaml", import.meta.url);
      const ours = { image, name: "fields", ports: [8080], stopSignal: "SIGKILL" };
      const amend = (value: unknown) => ({ ...value as object, ...ours });
      const text = await Deno.readTextFile(file);
      try {
        const { deployment } = await backend().apply(parseDeploySpec(text, { amend }));
        assert.deepEqual(deployment.warnings, []);
        assert.equal(deployment.instances[0].state, "healthy");
        assert.deepEqual(fieldWarnings(parseDeploySpec(text), rules), []);
      } finally {
        await backend().delete("fields");
      }
    },
  );

  test("labels come back", ["spec.labels"], async () => {
    const labels = { team: "shop", "com.example/tier": "one two" };
    try {
      const { deployment } = await backend().apply(quickSpec("fields", image, { labels }));
      assert.deepEqual([deployment.labels, deployment.warnings], [labels, []]);
      await under.reopen();
      assert.deepEqual((await backend().status("fields"))?.labels, labels);
    } finally {
      await backend().delete("fields");
    }
  });
}

/** Of the test itself. */
const OURS = ["name", "image", "strict"];

interface Choices {
  egress?: { mode?: string; rules?: unknown };
  credentials?: { sources?: { deliver?: { kind?: string }[] }[] };
}

/** A relayed egress excludes networks and proxies of its own, an endpoint the fields of a file. */
function excludesOthers({ egress = {}, credentials = {} }: Choices): boolean {
  const kind = credentials.sources?.[0]?.deliver?.[0]?.kind ?? "file";
  return kind !== "file" || egress.rules !== undefined || (egress.mode ?? "env") !== "env";
}

/** Fields whose samples do not run together, or not with this image. */
function running(): Record<string, unknown> {
  const subnet = `10.9.${1 + Math.floor(Math.random() * 250)}`;
  return {
    entrypoint: ["sh", "-c"],
    command: ['test "$LINES" = "$(printf "one\\ntwo")" && exec sleep 1000'],
    env: { LINES: "one\ntwo", MODE: "fast" },
    healthcheck: {
      ...{ test: ["CMD", "true"], interval: "1s", timeout: "60s" },
      ...{ startPeriod: "1s", startInterval: "100ms", retries: 3 },
    },
    ports: [{ container: 8080, hostIP: "127.0.0.1" }, { container: 53, protocol: "udp" }],
    // Only one can have an address of its own.
    replicas: 1,
    user: "1000:1000",
    groupAdd: ["3000"],
    // Where one is left out, podman takes the most there is, which not every host permits.
    ulimits: ["nofile=1024:2048", "nproc=1024:2048"],
    volumes: [{ name: "data", target: "/data", size: 1 << 30, labels: { team: "shop" } }],
    networks: [
      { name: "front", subnet: `${subnet}.0/24`, ip: `${subnet}.7`, mac: "02:42:0a:09:00:07" },
      { name: "back", internal: true, aliases: ["db"], labels: { team: "shop" }, priority: 9 },
    ],
    stopSignal: "SIGKILL",
  };
}

/** Puts one sample into another: of lists the first items, of sections the fields. */
function merge(into: Record<string, unknown>, from: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(from)) {
    const [old, item] = [into[name], value].map((one) => Array.isArray(one) ? one[0] : one);
    if (old && typeof old === "object" && item && typeof item === "object") merge(old, item);
    else into[name] = value;
  }
}
