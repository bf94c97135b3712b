/** Times of files in every builder: those at which steps wrote them. */
import assert from "node:assert/strict";
import { type BuilderSuite, ownLayers } from "./builder.ts";
import { build, type Files } from "./builder_fixture.ts";

export function timesContract(suite: BuilderSuite): void {
  Deno.test({
    name: `${suite.name}: files keep the times at which steps wrote them`,
    ignore: suite.ignore,
    fn: async () => {
      await using fixture = await suite.open();
      const { builder, images } = fixture;
      const files: Files = {
        Dockerfile: [
          "FROM base",
          "COPY f /f",
          "RUN echo 1 > /in && sleep 0.05 && cp /in /out",
          "RUN stat -c %y /in /out && echo 2 > /in",
          'RUN stat -c %y /out /in && test -z "$SOURCE_DATE_EPOCH"',
        ].join("\n"),
        f: "content",
      };
      const began = Math.floor(Date.now() / 1000);
      const plain = await build(builder, files);
      const times = plain.output.match(/^\d{4}-.*$/mg)!;
      assert.deepEqual(times.length, 4);
      assert.deepEqual([...new Set(times)], times.toSorted().filter((_, at) => at !== 1));
      assert.equal(times[1], times[2], "the later step sees it as it was");
      const entry = async (path: string) => {
        const layers = await ownLayers(images);
        return layers.findLast((layer) => layer.has(path))!.get(path)!;
      };
      assert.equal((await entry("f")).mtime, 0, "its own");
      assert.ok((await entry("in")).mtime >= began && (await entry("out")).mtime >= began);
      // The same snapshots with other times in the layers: no step runs for that.
      const dated = await build(builder, files, { reproducible: true });
      assert.equal(dated.result.ran, 0);
      assert.equal((await entry("in")).mtime, 0);
      // Nor do steps that build on them see the layers' times.
      const more = { ...files, Dockerfile: `${files.Dockerfile}\nRUN stat -c %y /out` };
      for (const options of [{}, { reproducible: true }]) {
        const again = await build(builder, more, { ...options, noCache: false });
        assert.ok(again.result.ran === 0 || again.output.includes(times[1]));
      }
      await fixture.assertClean();
    },
  });
}
