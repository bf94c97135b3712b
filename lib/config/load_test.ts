import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { type AnyOption, loadOptions } from "./load.ts";

const section = "test";
const TABLE = [
  {
    key: "addr",
    kind: "string",
    flag: "addr",
    env: ["SVC_ADDR"],
    default: ":5000",
    help: "",
    section,
  },
  { key: "tags", kind: "list", flag: "tag", short: "t", help: "", section },
  { key: "args", kind: "list", flag: "build-arg", verbatim: true, help: "", section },
  { key: "auto", kind: "bool", flag: "auto", negatable: true, default: true, help: "", section },
  { key: "quiet", kind: "bool", flag: "quiet", short: "q", help: "", section },
  { key: "tail", kind: "int", flag: "tail", short: "n", help: "", section },
  {
    key: "mode",
    kind: "string",
    flag: "mode",
    default: "a",
    absent: "the mode",
    choices: ["a", "b"],
    help: "",
    section,
  },
] as const satisfies readonly AnyOption[];

const load = (args: string[], rest: Partial<Parameters<typeof loadOptions>[1]> = {}) =>
  loadOptions(TABLE, { args, ...rest });

const failure = (code: string, message: RegExp) => (error: unknown) =>
  error instanceof SvcError && error.code === code && message.test(error.message);

Deno.test("flags win over variables, variables over defaults", () => {
  assert.equal(load([]).values.addr, ":5000");
  assert.equal(load([], { env: { SVC_ADDR: ":1" } }).values.addr, ":1");
  assert.equal(load([], { env: { SVC_ADDR: "" } }).values.addr, ":5000");
  const both = load(["--addr", ":2"], { env: { SVC_ADDR: ":1" } });
  assert.equal(both.values.addr, ":2");
  assert.deepEqual(both.sources, { addr: "--addr" });
});

Deno.test("every way to write a flag", () => {
  const { values } = load(["--addr=:3", "-qt", "x", "-ty,z", "--no-auto", "-n=4"]);
  assert.deepEqual(
    { ...values },
    {
      addr: ":3",
      tags: ["x", "y", "z"],
      args: undefined,
      auto: false,
      quiet: true,
      tail: 4,
      mode: "a",
    },
  );
  assert.deepEqual(load(["--build-arg", "A=1,2", "--build-arg=B="]).values.args, ["A=1,2", "B="]);
  assert.equal(load(["--quiet=false"]).values.quiet, false);
  assert.equal(load(["-q=no"]).values.quiet, false);
});

Deno.test("positionals, the end of options, and words passed through", () => {
  const input = { allowPositionals: true };
  assert.deepEqual(load(["a", "-q", "b", "--", "-x", "--"], input).positionals, [
    "a",
    "b",
    "-x",
    "--",
  ]);
  assert.deepEqual(load(["-"], input).positionals, ["-"]);
  const exec = { allowPositionals: true, passThroughAfter: 1 };
  const passed = load(["-q", "web", "ls", "-la", "--", "--tag"], exec);
  assert.deepEqual(passed.positionals, ["web", "ls", "-la", "--", "--tag"]);
  assert.equal(passed.values.tags, undefined);
  assert.deepEqual(load(["web", "--", "ls", "-la"], exec).positionals, ["web", "ls", "-la"]);
});

Deno.test("what cannot be read says so, with the nearest name", () => {
  assert.throws(
    () => load(["--adr", "x"]),
    failure("usage", /--adr: unknown flag; did you mean --addr\?/),
  );
  assert.throws(() => load(["--no-auot"]), failure("usage", /did you mean --no-auto\?/));
  assert.throws(() => load(["-x"]), failure("usage", /-x: unknown flag$/));
  assert.throws(() => load(["-addr"]), failure("usage", /-a: unknown flag; did you mean --addr\?/));
  assert.throws(() => load(["--addr"]), failure("usage", /a value is missing/));
  assert.throws(() => load(["word"]), failure("usage", /no argument is expected/));
  assert.throws(() => load(["--no-auto=1"]), failure("usage", /takes no value/));
  assert.throws(
    () => load(["--tail", "x"]),
    failure("config_invalid", /--tail: expected a whole number/),
  );
  assert.throws(() => load(["--mode", "c"]), failure("config_invalid", /not one of a, b/));
});

Deno.test("the help of a wrong value is that of its command", () => {
  const help = (command?: string) => {
    try {
      load(["--mode", "x"], { command });
    } catch (error) {
      return (error as SvcError).help;
    }
  };
  assert.match(help("svc build")!, /`svc build --help` lists them/);
  assert.equal(help(), new SvcError("config_invalid", "").help);
});

Deno.test("an absent subsystem refuses everything but its default", () => {
  assert.equal(load(["--mode", "a"]).values.mode, "a");
  assert.throws(
    () => load(["--mode", "b"]),
    failure("not_in_build", /Cannot use --mode: the mode is not in this build yet/),
  );
});
