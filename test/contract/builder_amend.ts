/** What every builder makes of a folder that it has copied before. */
import assert from "node:assert/strict";
import { type BuilderSuite, layerEntries } from "./builder.ts";
import { EARLY, Table } from "./caller_table.ts";

const DOCKERFILE = `FROM base
COPY src /src
RUN cat /src/d1/f1 /src/d1/new; ls /src/d2; find /src -type f | wc -l
`;

export function amendedContract(suite: BuilderSuite): void {
  Deno.test({
    name: `${suite.name}: a folder that is copied again with a few changes is all there`,
    ignore: suite.ignore,
    fn: async () => {
      await using fixture = await suite.open();
      const { builder, images } = fixture;
      const table = new Table();
      for (let n = 0; n < 250; n++) {
        table.set(`src/d${n % 10}/f${n}`, { type: "file", text: `file ${n}\n` });
      }
      const build = async () => {
        let output = "";
        await builder.build({
          tags: ["result"],
          dockerfile: "Dockerfile",
          buildArgs: {},
          labels: {},
          noCache: false,
          context: { tree: table, dockerfile: DOCKERFILE, ignore: "", received: () => 0 },
        }, {
          onEvent: (event) => {
            if (event.type === "output") output += event.text;
          },
        });
        return output;
      };
      table.set("src/d1/new", { type: "file", text: "new\n" });
      assert.match(await build(), /^file 1\nnew\n/);
      table.set("src/d1/f1", { text: "changed\n", mtime: EARLY + 50 });
      for (let n = 12; n < 250; n += 10) table.remove(`src/d2/f${n}`);
      const output = await build();
      assert.match(output, /^changed\nnew\nf2\n227\n/);
      const { manifest } = await images.image("result");
      const layer = layerEntries(images, manifest.layers.at(-2)!.digest);
      assert.equal(layer.get("src/d1/f1")?.text, "changed\n");
      assert.equal(layer.get("src/d9/f9")?.text, "file 9\n");
      assert.deepEqual([...layer.keys()].filter((path) => path.startsWith("src/d2/")), [
        "src/d2/f2",
      ]);
      assert.ok(![...layer.keys()].some((path) => path.includes(".wh.")));
      await fixture.assertClean();
    },
  });
}
