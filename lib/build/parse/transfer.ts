/** COPY and ADD. */
import type { AddInstruction, CopyInstruction, Heredoc, Word } from "./ast.ts";
import type { Body } from "./commands.ts";
import type { FlagType } from "./flags.ts";
import type { Line } from "./line.ts";
import { jsonForm, plainWords } from "./words.ts";

const SHARED: Record<string, FlagType> = {
  chown: "text",
  chmod: "text",
  link: "boolean",
  exclude: "list",
};

interface Paths {
  sources: Word[];
  files: Heredoc[];
  destination: Word;
}

/** Arguments in order: a heredoc word stands for its file. */
function args(line: Line): (string | Heredoc)[] {
  const json = jsonForm(line.rest);
  if (json.kind === "mixed") throw line.fail("its JSON array holds something other than strings");
  if (json.kind === "array") return json.values;
  const result: (string | Heredoc)[] = [];
  let at = 0;
  line.tokens.forEach((token, index) => {
    for (const word of plainWords(line.rest.slice(at, token.start))) result.push(word);
    result.push(line.heredocs[index]);
    at = token.end;
  });
  for (const word of plainWords(line.rest.slice(at))) result.push(word);
  return result;
}

function paths(line: Line): Paths {
  const all = args(line);
  if (all.length === 0) throw line.fail("it needs a source and a destination");
  if (all.length === 1) throw line.fail("it has one argument; it needs a source and a destination");
  const last = all[all.length - 1];
  if (typeof last !== "string") throw line.fail("its destination cannot be a heredoc");
  if (last === "") throw line.fail("its destination is empty");
  const sources: Word[] = [];
  const files: Heredoc[] = [];
  for (const arg of all.slice(0, -1)) {
    if (typeof arg === "string") sources.push(line.word(arg));
    else if (/\/|^\.{1,2}$/.test(arg.name)) {
      throw line.fail(`heredoc name ${JSON.stringify(arg.name)} cannot name a file`);
    } else files.push(arg);
  }
  return { sources, files, destination: line.word(last) };
}

function optional(line: Line, flag: string): Word | undefined {
  const raw = line.flags.text(flag);
  return raw === undefined ? undefined : line.word(raw);
}

function shared(line: Line) {
  const chown = optional(line, "chown");
  const chmod = optional(line, "chmod");
  return {
    ...paths(line),
    ...(chown && { chown }),
    ...(chmod && { chmod }),
    link: line.flags.boolean("link") ?? false,
    exclude: line.flags.list("exclude").map((raw) => line.word(raw)),
  };
}

export function parseCopy(line: Line): Body<CopyInstruction> {
  line.flags.check({ from: "text", ...SHARED, parents: "boolean" });
  const from = line.flags.text("from");
  if (from === "") throw line.fail("flag --from needs a value");
  if (from?.includes("$")) {
    throw line.fail(
      "flag --from takes no variables; give the image a stage of its own and name that",
    );
  }
  const body = shared(line);
  if (from !== undefined && body.files.length > 0) {
    throw line.fail("flag --from does not go with a heredoc source");
  }
  return {
    kind: "copy",
    ...(from === undefined ? {} : { from }),
    ...body,
    parents: line.flags.boolean("parents") ?? false,
  };
}

export function parseAdd(line: Line): Body<AddInstruction> {
  line.flags.check({
    ...SHARED,
    checksum: "text",
    "keep-git-dir": "boolean",
    unpack: "boolean",
  });
  const checksum = optional(line, "checksum");
  const keepGitDir = line.flags.boolean("keep-git-dir");
  const unpack = line.flags.boolean("unpack");
  return {
    kind: "add",
    ...shared(line),
    ...(checksum && { checksum }),
    ...(keepGitDir === undefined ? {} : { keepGitDir }),
    ...(unpack === undefined ? {} : { unpack }),
  };
}
