import assert from "node:assert/strict";
import { validateDeploySpec } from "../../api/deploy_spec_parse.ts";
import { type NamedInstance, namesOn, requireFreeAliases } from "./names.ts";

const spec = (name: string, ...aliases: string[]) =>
  validateDeploySpec({ name, image: "app", networks: [{ name: "front", aliases }] });

Deno.test("an alias cannot be another deployment's name on its network", () => {
  const others = [spec("db"), spec("web")];
  for (const alias of ["db", "DB", "db-0", "db-12"]) {
    assert.throws(() => requireFreeAliases(spec("web", alias), others), {
      code: "conflict",
      message:
        `Cannot deploy web with the alias ${alias}: on network front that is deployment db's name`,
    });
  }
  requireFreeAliases(spec("web", "web", "web-0", "db-x", "cache"), others);
  const elsewhere = validateDeploySpec({ name: "db", image: "app", networks: ["back"] });
  requireFreeAliases(spec("web", "db"), [elsewhere]);
});

Deno.test("a name leads to the deployment that is called so, whoever had it as an alias before", () => {
  const instance = (deployment: string, ip: string, aliases: string[]) =>
    ({
      deployment,
      id: `${deployment}-0`,
      standing: "ready",
      leaving: false,
      made: {},
      networks: [{ network: { name: "front" }, ip, aliases }],
    }) as unknown as NamedInstance;
  const all = [
    instance("web", "10.0.0.2", ["db", "db-0", "cache", "localhost", "x\n10.6.6.6\tevil"]),
    instance("db", "10.0.0.3", ["cache"]),
    instance("db-0", "10.0.0.4", []),
  ];
  assert.deepEqual(namesOn("front", all).map(({ ip, names }) => [ip, ...names]), [
    ["10.0.0.2", "web", "web-0", "cache"],
    ["10.0.0.3", "db", "cache"],
    ["10.0.0.4", "db-0", "db-0-0"],
  ]);
});

Deno.test("a name leads to the best there is; a hostname is one, but not another deployment's", () => {
  const instance = (deployment: string, replica: number, standing?: string, hostname?: string) =>
    ({
      deployment,
      id: `${deployment}-${replica}`,
      standing,
      leaving: false,
      made: { hostname: hostname ?? `${deployment}-${replica}` },
      networks: [{ network: { name: "front" }, ip: `${deployment}-${replica}`, aliases: [] }],
    }) as unknown as NamedInstance;
  const all = [
    instance("web", 0, "ready", "own.example.org"),
    instance("web", 1, "running"),
    instance("web", 0, "trial"),
    instance("job", 0, "trial", "web"),
    instance("off", 0),
  ];
  assert.deepEqual(namesOn("front", all).map(({ names }) => names), [
    ["web", "web-0", "own.example.org", "own"],
    ["web-1"],
    [],
    ["job", "job-0"],
    [],
  ]);
  assert.deepEqual(namesOn("front", all).at(-1)!.away, ["off", "off-0"]);
});
