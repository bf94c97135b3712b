import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { variablesOf } from "./expand.ts";
import { parseDockerfile, parseTrigger } from "./parse.ts";
import { parsePorts } from "./ports.ts";
import { wordsOf } from "./words_of.ts";

function refuses(run: () => unknown, message: RegExp, detail?: Record<string, unknown>): void {
  assert.throws(run, (error) => {
    assert.ok(error instanceof SvcError);
    assert.equal(error.code, "dockerfile_invalid");
    assert.match(error.message, message);
    if (detail) assert.deepEqual(error.detail, detail);
    return true;
  });
}

Deno.test("errors name the file they are told", () => {
  refuses(
    () => parseDockerfile("FROM a\nRUN\n", { file: "build/app.Dockerfile" }),
    /^Cannot parse RUN on line 2 of build\/app\.Dockerfile: it needs a command$/,
    { line: 2, file: "build/app.Dockerfile" },
  );
});

Deno.test("a file beyond any Dockerfile's size is refused before it is looked at", () => {
  refuses(() => parseDockerfile("#".repeat((4 << 20) + 1)), /larger than 4 MiB/);
});

Deno.test("triggers of a base image parse as they were recorded", () => {
  const file = parseDockerfile("FROM a\nONBUILD RUN cat <<A <<'B'\n$x\nA\ny\nB\n");
  const [onbuild] = file.stages[0].instructions;
  assert.ok(onbuild.kind === "onbuild");
  const parsed = parseTrigger(onbuild.trigger);
  assert.ok(parsed.kind === "run" && onbuild.instruction.kind === "run");
  assert.deepEqual(parsed.command, onbuild.instruction.command);
  assert.deepEqual(parsed.heredocs.map((doc) => doc.content), ["$x\n", "y\n"]);
});

Deno.test("a trigger is one instruction of a kind that can be triggered", () => {
  refuses(() => parseTrigger(""), /it is empty/);
  refuses(() => parseTrigger("FROM a", { file: "image x" }), /FROM cannot be a trigger/);
  refuses(() => parseTrigger("ONBUILD RUN x"), /ONBUILD cannot be a trigger/);
  refuses(() => parseTrigger("RUN a\nRUN b"), /on line 2 of ONBUILD: it is more than one/);
});

Deno.test("wordsOf tells what the build expands", () => {
  const file = parseDockerfile(
    "FROM --platform=$P $I AS a\n" +
      "RUN --mount=type=cache,target=$T echo $NO\nCMD $NO\nENTRYPOINT $NO\nONBUILD USER $NO\n" +
      "COPY --chown=$O --chmod=$M --exclude=$E $S $D\nADD --checksum=$C $S $D\nENV $K=$V\n" +
      "ARG A=$V\nLABEL $K=$V\nWORKDIR $W\nUSER $U\nEXPOSE $X\nVOLUME $L\nSTOPSIGNAL $G\n" +
      "HEALTHCHECK CMD $NO\nMAINTAINER $NO\n",
  );
  const [stage] = file.stages;
  const names = [stage.from, ...stage.instructions].map((instruction) =>
    wordsOf(instruction).flatMap((word) => variablesOf(word)).sort().join("")
  );
  assert.deepEqual(
    names,
    ["IP", "T", "", "", "", "DEMOS", "CDS", "KV", "V", "KV", "W", "U", "X", "L", "G", "", ""],
  );
});

Deno.test("warnings come by line and stop at a number that someone can read", () => {
  const file = parseDockerfile(`FROM scratch\n${"ENV a $x\n".repeat(2000)}`);
  assert.equal(file.warnings.length, 500);
  const lines = file.warnings.map((warning) => warning.line);
  assert.deepEqual(lines, [...lines].sort((a, b) => a - b));
  assert.equal(
    file.warnings[0].url,
    "https://docs.docker.com/go/dockerfile/rule/undefined-var/",
  );
});

Deno.test("check=skip=all silences every rule, error=true is kept for the builder", () => {
  const file = parseDockerfile("# check=skip=all;error=1\nfrom a AS B\nCMD x\nMAINTAINER y\n");
  assert.deepEqual(file.warnings, []);
  assert.equal(file.directives.check?.error, true);
});

const ports = (text: string) => {
  const parsed = parsePorts(text);
  return "reason" in parsed ? parsed.reason : parsed.ports();
};

Deno.test("ports: single, range, protocol", () => {
  assert.deepEqual(ports("80"), ["80/tcp"]);
  assert.deepEqual(ports("80/"), ["80/tcp"]);
  assert.deepEqual(ports("53/UDP"), ["53/udp"]);
  assert.deepEqual(ports("7-9/sctp"), ["7/sctp", "8/sctp", "9/sctp"]);
  assert.deepEqual(ports("[::1]:1:2"), ["2/tcp"]);
  for (const bad of ["", "/tcp", "x", "-1", "9-7", "65536", "1-65536", "80/http", "80:", "1-2-3"]) {
    assert.match(String(ports(bad)), /is invalid: /, bad);
  }
});
