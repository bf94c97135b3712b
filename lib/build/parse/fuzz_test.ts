/** Whatever the text: a tree or an SvcError, in time. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { runs } from "../../../test/fixtures/property.ts";
import { SvcError } from "../../base/errors.ts";
import { expand, expandWords, scopeOf, variablesOf } from "./expand.ts";
import { parseIgnore } from "./ignore.ts";
import { compilePath } from "./path_pattern.ts";
import { parseDockerfile } from "./parse.ts";
import { INSTRUCTIONS } from "./predefined.ts";
import { wordsOf } from "./words_of.ts";
import { cpuTime } from "../../../test/fixtures/cpu_time.ts";

const fragment = fc.oneof(
  fc.constantFrom(...INSTRUCTIONS, "FROM scratch\n", "AS", "as", "CMD", "NONE"),
  fc.constantFrom(" ", "\n", "\\\n", "`\n", "\r\n", "\t", "\\", "'", '"', "#", "=", "$", "${", "}"),
  fc.constantFrom("<<EOF", "<<-'EOF'", "\nEOF\n", "3<<A", "[", '["a", "b"]', "]", "a=b", "x", "/"),
  fc.constantFrom("--mount=type=cache,target=/x", "--from=0", "--link", "--", "--mount=", "--x=y"),
  fc.constantFrom("# escape=`\n", "# syntax=x\n", "# check=skip=all\n", ":-", "#", "%%", "//"),
  fc.string({ unit: "grapheme", maxLength: 8 }),
  fc.string({ unit: "binary", maxLength: 4 }),
);
const text = fc.array(fragment, { maxLength: 40 }).map((parts) => parts.join(""));
/** Mostly valid files, so that what is behind the first line is reached too. */
const valid = fc.array(
  fc.oneof(
    fc.constantFrom(
      "RUN <<EOF\n\ta $x\nEOF",
      'RUN ["a", "b c"]',
      "COPY --from=0 <<A b /c/\nA",
      "ENV a=b c='d e'",
      "LABEL old value",
      "ONBUILD RUN x",
      "FROM scratch AS two",
      "ARG A=${B:-c} D",
      "EXPOSE 80/udp $P",
      "HEALTHCHECK --retries=2 CMD x",
      "# comment",
      "",
      "CMD a \\\n\n# in between\n  b",
    ),
    fc.tuple(fc.constantFrom("RUN ", "CMD ", "USER ", "LABEL a=", "ADD a "), fragment)
      .map((parts) => parts.join("")),
  ),
  { maxLength: 12 },
).map((lines) => lines.join("\n"));
const shellText = fc.array(
  fc.oneof(
    fc.constantFrom("$", "${", "}", "A", "B", ":-", "-", "+", ":+", "?", "#", "##", "%", "%%", "/"),
    fc.constantFrom("//", "'", '"', "\\", "`", "*", " ", "${A:-", "${B/", "${A//", "$A"),
    fc.string({ maxLength: 3 }),
  ),
  { maxLength: 30 },
).map((parts) => parts.join(""));

/** The value, or undefined where an SvcError with a line was thrown. */
function attempt<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    assert.ok(error instanceof SvcError, String(error));
    assert.ok(["dockerfile_invalid", "context_invalid"].includes(error.code));
    assert.match(error.message, /^Cannot \w+ [^]*: /);
    return undefined;
  }
}

Deno.test("any text parses or is refused with a line", () => {
  fc.assert(
    fc.property(fc.oneof(text, valid), fc.boolean(), (body, from) => {
      const source = from ? `FROM scratch\n${body}` : body;
      const file = attempt(() => parseDockerfile(source));
      if (file === undefined) return;
      const lines = source.split("\n").length;
      for (const stage of file.stages) {
        for (const instruction of [stage.from, ...stage.instructions]) {
          assert.ok(instruction.line >= 1 && instruction.line <= instruction.endLine);
          assert.ok(instruction.endLine <= lines);
          // What was accepted has no syntax error left for the build.
          for (const word of wordsOf(instruction)) variablesOf(word, file.directives);
        }
      }
    }),
    runs(3000),
  );
});

Deno.test("an accepted file means the same with CRLF and a byte-order mark", () => {
  fc.assert(
    fc.property(fc.oneof(text, valid).filter((body) => !body.includes("\r")), (body) => {
      const source = `FROM scratch\n${body}`;
      const plain = attempt(() => parseDockerfile(source));
      const other = attempt(() => parseDockerfile(`\uFEFF${source.replaceAll("\n", "\r\n")}`));
      assert.deepEqual(other, plain);
    }),
    runs(500),
  );
});

Deno.test("any word expands or is refused", () => {
  const scope = scopeOf({ A: "a/b.c", B: "* ?" });
  fc.assert(
    fc.property(shellText, fc.constantFrom("\\" as const, "`" as const), (word, escape) => {
      const expansion = attempt(() => expandWords(word, scope, { escape }));
      if (expansion === undefined) return;
      assert.equal(expand(word, scope, { escape }).value, expansion.value);
      const names = variablesOf(word, { escape });
      for (const name of expansion.used) assert.ok(names.includes(name));
      for (const name of expansion.unset) assert.ok(expansion.used.includes(name));
    }),
    runs(5000),
  );
});

Deno.test("a value in single quotes comes through unchanged", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), (value) => {
      const quoted = `'${value.replaceAll("'", `'"'"'`)}'`;
      assert.equal(expand(quoted, scopeOf({})).value, value);
      const line = value.replace(/[\r\n]/g, "");
      // The end of a line is trimmed and joined before quotes count, so keep it away from the seam.
      const file = parseDockerfile(`FROM scratch\nENV a='${line.replaceAll("'", "")}' b=c\n`);
      const [env] = file.stages[0].instructions;
      assert.ok(env.kind === "env");
      assert.equal(expand(env.pairs[0].value, scopeOf({})).value, line.replaceAll("'", ""));
    }),
    runs(100),
  );
});

Deno.test("any pattern matches, does not, or is refused", () => {
  const pattern = fc.array(
    fc.constantFrom("*", "**", "?", "[", "]", "^", "-", "a", "b", "/", "!", "\\", ".", "\n", "#"),
    { maxLength: 20 },
  ).map((parts) => parts.join(""));
  const path = fc.array(fc.constantFrom("a", "b", "ab", ".", "*"), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(pattern, path, (rules, parts) => {
      compilePath(rules, false)?.matches(parts.join("/"));
      const ignore = attempt(() => parseIgnore(rules));
      if (ignore === undefined) return;
      const excluded = ignore.excludes(parts.join("/"));
      // A folder that a walker skips has nothing in it that is not excluded.
      for (let depth = 1; depth < parts.length; depth++) {
        if (ignore.canSkipDir(parts.slice(0, depth).join("/"))) assert.ok(excluded);
      }
    }),
    runs(5000),
  );
});

Deno.test("long runs of anything take linear time", () => {
  const long = 120_000;
  const start = cpuTime();
  for (
    const run of [" ", "\\", "\r", "\t", "'", '"', "$", "<", "<< ", "--a ", "\\ ", "#", "a=b ", ","]
  ) {
    const body = run.repeat(Math.ceil(long / run.length));
    for (const keyword of ["", "RUN ", "ENV a=", "COPY ", "RUN --mount=", "# escape=", "LABEL "]) {
      attempt(() => parseDockerfile(`FROM scratch\n${keyword}${body}x\n`));
      attempt(() => parseDockerfile(`${keyword}${body}x\n`));
    }
  }
  attempt(() => parseDockerfile("FROM scratch\n".repeat(20_000)));
  assert.ok(cpuTime() - start < 15_000);
});
