/** Cache mounts of callers that a policy tells apart. */
import assert from "node:assert/strict";
import { parseCacheFrom, parseCacheTo } from "../../lib/api/build_cache_spec.ts";
import type { BuildRequest } from "../../lib/build/builder.ts";
import { build, type Files } from "../../test/contract/builder_fixture.ts";
import { openNewEngine } from "../../test/contract/engine_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";

const { ignore } = requireTools({ root: true, commands: ["runc"], files: ["/bin/busybox"] });

const by = (cacheOwner: string): Partial<BuildRequest> => ({
  caller: { subject: cacheOwner, mayPull: true, cacheOwner },
});

const shows = (nonce: string, id = "store"): Files => ({
  Dockerfile:
    `FROM base\nRUN --mount=type=cache,id=${id},target=/c : ${nonce}; cat /c/* || echo nothing\n`,
});

const KEEPS: Files = {
  Dockerfile:
    "FROM base\nRUN --mount=type=cache,id=store,target=/c cat /proc/sys/kernel/random/uuid > /c/f; cat /c/f\n",
};

Deno.test({
  name: "cache mounts are a caller's own where callers are told apart",
  ignore,
  fn: async () => {
    await using fixture = await openNewEngine();
    const { builder } = fixture;
    const says = async (files: Files, request: Partial<BuildRequest>) =>
      (await build(builder, files, request)).output.trim();
    const kept = await says(KEEPS, by("alice"));
    assert.match(kept, /\d/);
    assert.match(await says(shows("1"), by("alice")), new RegExp(kept.slice(-20)));
    assert.match(await says(shows("2"), by("bob")), /nothing/);
    assert.match(await says(shows("3"), {}), /nothing/, "nor are they everybody's");
    // The same step: its result is the caller's own, too.
    const again = await build(builder, KEEPS, by("bob"));
    assert.equal(again.result.ran, 1);
    assert.equal((await build(builder, KEEPS, by("alice"))).result.ran, 0);
    await fixture.assertClean();
  },
});

Deno.test({
  name: "cache mounts that all share are for whom asks, where the server permits it",
  ignore,
  fn: async () => {
    const asked = (who: string): Partial<BuildRequest> => ({
      ...by(who),
      allow: ["cache.shared"],
    });
    await using strict = await openNewEngine();
    await assert.rejects(build(strict.builder, KEEPS, asked("alice")), {
      code: "denied",
      message: /line 2: the server does not permit shared cache mounts/,
    });
    await using fixture = await openNewEngine(["cache.shared"]);
    const { output } = await build(fixture.builder, KEEPS, asked("alice"));
    const seen = await build(fixture.builder, shows("1"), asked("bob"));
    assert.match(seen.output, new RegExp(output.trim().slice(-20)));
    assert.match((await build(fixture.builder, shows("2"), by("bob"))).output, /nothing/);
  },
});

Deno.test({
  name: "cache mounts that travel are the exporter's, and become the importer's own",
  ignore,
  fn: async () => {
    await using fixture = await openNewEngine();
    const { builder } = fixture;
    const to = { cacheTo: [parseCacheTo("type=registry,ref=kept,mounts=true")] };
    const from = { cacheFrom: [parseCacheFrom("type=registry,ref=kept,mounts=true")] };
    const { output } = await build(builder, KEEPS, by("alice"));
    await build(builder, shows("0"), { ...by("bob"), ...to });
    assert.match(
      (await build(builder, shows("1"), { ...by("carol"), ...from })).output,
      /nothing/,
      "bob has none of alice's to send",
    );
    await build(builder, shows("2"), { ...by("alice"), ...to });
    const mine = new RegExp(output.trim().slice(-20));
    assert.match((await build(builder, shows("3"), { ...by("dave"), ...from })).output, mine);
    assert.match((await build(builder, shows("4"), by("erin"))).output, /nothing/);
  },
});
