/** Instructions that set metadata: FROM, ENV, LABEL, ARG, WORKDIR, USER, EXPOSE, VOLUME, STOPSIGNAL, MAINTAINER. */
import type {
  ArgInstruction,
  EnvInstruction,
  ExposeInstruction,
  FromInstruction,
  LabelInstruction,
  MaintainerInstruction,
  StopsignalInstruction,
  UserInstruction,
  VolumeInstruction,
  WorkdirInstruction,
} from "./ast.ts";
import type { Body } from "./commands.ts";
import type { Line } from "./line.ts";
import { parsePorts } from "./ports.ts";
import { jsonForm, plainWords, quotedWords } from "./words.ts";

export function parseFrom(line: Line): Body<FromInstruction> {
  line.flags.check({ platform: "text" });
  const words = plainWords(line.required("an image, or scratch"));
  const [image, keyword, name] = words;
  if (words.length !== 1 && (words.length !== 3 || keyword.toLowerCase() !== "as")) {
    throw line.fail("expected FROM IMAGE or FROM IMAGE AS NAME");
  }
  if (name !== undefined && !/^[a-z][a-z0-9_.-]*$/i.test(name)) {
    throw line.fail(
      `stage name ${
        JSON.stringify(name)
      } must start with a letter and go on with letters, digits, - _ .`,
    );
  }
  const platform = line.flags.text("platform");
  return {
    kind: "from",
    image: line.word(image),
    ...(name === undefined ? {} : { as: name }),
    ...(platform ? { platform: line.word(platform) } : {}),
  };
}

/** The keys and values of ENV and LABEL; `legacy` for the form without "=". */
function keyValues(line: Line): { pairs: [string, string][]; legacy: boolean } {
  const text = line.required("a name and a value");
  const words = quotedWords(text, line.escape);
  if (words.length === 0) throw line.fail("it needs a name and a value");
  const [first] = words;
  if (!first.includes("=")) {
    const space = text.search(/\s/);
    if (space === -1) throw line.fail(`${first} has no value; write ${first}=VALUE`);
    return { pairs: [[text.slice(0, space), text.slice(space).trim()]], legacy: true };
  }
  const pairs = words.map((word): [string, string] => {
    const equals = word.indexOf("=");
    if (equals === -1) {
      throw line.fail(
        `${JSON.stringify(word)} has no "="; write NAME=VALUE, and quote a value that has spaces`,
      );
    }
    if (equals === 0) throw line.fail(`${JSON.stringify(word)} has no name before the "="`);
    return [word.slice(0, equals), word.slice(equals + 1)];
  });
  return { pairs, legacy: false };
}

function pairs(line: Line) {
  line.flags.check({});
  const { pairs, legacy } = keyValues(line);
  const words = pairs.map(([key, value]) => ({ key: line.word(key), value: line.word(value) }));
  return { pairs: words, legacy };
}

export function parseEnv(line: Line): Body<EnvInstruction> {
  return { kind: "env", ...pairs(line) };
}

export function parseLabel(line: Line): Body<LabelInstruction> {
  return { kind: "label", ...pairs(line) };
}

export function parseArg(line: Line): Body<ArgInstruction> {
  line.flags.check({});
  const words = quotedWords(line.required("a name"), line.escape);
  if (words.length === 0) throw line.fail("it needs a name");
  const args = words.map((word) => {
    const equals = word.indexOf("=");
    if (equals === -1) return { key: line.word(word) };
    if (equals === 0) throw line.fail(`${JSON.stringify(word)} has no name before the "="`);
    return { key: line.word(word.slice(0, equals)), value: line.word(word.slice(equals + 1)) };
  });
  return { kind: "arg", args };
}

export function parseWorkdir(line: Line): Body<WorkdirInstruction> {
  line.flags.check({});
  return { kind: "workdir", path: line.word(line.required("a path")) };
}

export function parseUser(line: Line): Body<UserInstruction> {
  line.flags.check({});
  return { kind: "user", user: line.word(line.required("a user")) };
}

export function parseStopsignal(line: Line): Body<StopsignalInstruction> {
  line.flags.check({});
  return { kind: "stopsignal", signal: line.word(line.required("a signal")) };
}

export function parseMaintainer(line: Line): Body<MaintainerInstruction> {
  line.flags.check({});
  return { kind: "maintainer", name: line.required("a name") };
}

export function parseExpose(line: Line): Body<ExposeInstruction> {
  line.flags.check({});
  const ports = plainWords(line.required("a port"));
  for (const port of ports) {
    if (/[$'"`\\]/.test(port)) continue;
    const parsed = parsePorts(port);
    if ("reason" in parsed) throw line.fail(parsed.reason);
  }
  return { kind: "expose", ports: ports.map((port) => line.word(port)) };
}

export function parseVolume(line: Line): Body<VolumeInstruction> {
  line.flags.check({});
  const text = line.required("a path");
  const json = jsonForm(text);
  if (json.kind === "mixed") throw line.fail("its JSON array holds something other than strings");
  const paths = json.kind === "array" ? json.values.map((path) => path.trim()) : plainWords(text);
  if (paths.length === 0) throw line.fail("it needs a path");
  if (paths.includes("")) throw line.fail("a path is empty");
  return { kind: "volume", paths: paths.map((path) => line.word(path)) };
}
