/** Builds whose files nobody would come to the end of, and steps that would never end. */
import assert from "node:assert/strict";
import { build } from "../../test/contract/builder_fixture.ts";
import { openEngine } from "../../test/contract/engine_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";

const { ignore } = requireTools({ root: true, commands: ["runc"], files: ["/bin/busybox"] });

const newFolder = () => Deno.makeTempDir({ prefix: "svc-build-" });

Deno.test({
  name: "engine: a passwd that is a FIFO, or has no end, fails what looks into it, at once",
  ignore,
  fn: async () => {
    await using engine = await openEngine(await newFolder());
    const fifo = "FROM base\nRUN rm -f /etc/passwd && busybox mkfifo /etc/passwd\n";
    const uses = [
      "USER web\nRUN true",
      "RUN true",
      "COPY --chown=web a /a",
      "USER web\nWORKDIR /new",
    ];
    for (const use of uses) {
      await assert.rejects(build(engine.builder, { Dockerfile: `${fifo}${use}\n`, a: "a" }), {
        code: "build_failed",
        message: /passwd: it is a FIFO, not a regular file/,
      }, use);
    }
    const large = "FROM base\nRUN busybox truncate -s 20G /etc/group\nUSER web\nRUN true\n";
    await assert.rejects(build(engine.builder, { Dockerfile: large }), {
      code: "too_large",
      message: /etc\/group/,
    });
    await engine.assertClean();
  },
});

Deno.test({
  name: "engine: a step that never begins, and one that never ends, are ended by their deadlines",
  ignore,
  fn: async () => {
    const open = async (limits: { stepTimeoutMs?: number; buildTimeoutMs?: number }) =>
      await openEngine(await newFolder(), undefined, undefined, undefined, undefined, limits);
    {
      await using engine = await open({ stepTimeoutMs: 3000 });
      // The runtime itself reads it, before the command begins.
      const waits = "FROM base AS one\nRUN busybox mkfifo /fifo\nFROM base\n" +
        "RUN --mount=type=bind,from=one,source=/fifo,target=/etc/passwd true\n";
      const ended = (Dockerfile: string) =>
        assert.rejects(build(engine.builder, { Dockerfile }), {
          code: "timeout",
          message: /Dockerfile:\d: RUN .*longer than 3s \(SVC_BUILD_STEP_TIMEOUT\)/,
        });
      await Promise.all([waits, "FROM base\nRUN sleep 1000\n"].map(ended));
      await engine.assertClean();
    }
    await using engine = await open({ buildTimeoutMs: 2000 });
    await assert.rejects(build(engine.builder, { Dockerfile: "FROM base\nRUN sleep 1000\n" }), {
      code: "timeout",
      message: /SVC_BUILD_TIMEOUT/,
    });
    await engine.assertClean();
  },
});
