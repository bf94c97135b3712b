/** Files of a folder that is built: their own times, and one file with two names stays one. */
import assert from "node:assert/strict";
import { setTimes } from "../../lib/sys/files.ts";
import { good, outputOf, test } from "./attached_fixture.ts";
import { layerEntries } from "./builder.ts";

test("files keep their own times to the nanosecond, and the names of one file stay one", async (at) => {
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`d/m/${n}`, `${n}`]));
  await at.write({
    Dockerfile: "FROM base\nCOPY d /d\nRUN stat -c '%n %y %h %i' /d /d/a /d/m/b /d/m/0\n",
    "d/a": "one",
    ...many,
  });
  await Deno.link(`${at.folder}/d/a`, `${at.folder}/d/m/b`);
  setTimes(`${at.folder}/d/a`, 1_500_000_000, 123_456_789);
  setTimes(`${at.folder}/d`, 1_400_000_000, 987_654_321);
  const layer = async () => {
    const { manifest } = await at.engine.images.image("result");
    return layerEntries(at.engine.images, manifest.layers[1].digest);
  };
  const look = async () => {
    const output = outputOf(good(await at.svc(["--no-cache"])));
    const [, folder, a, b, other] = /^(.*)\n(.*)\n(.*)\n(.*)\n$/.exec(output)!;
    assert.match(folder, /^\/d 2014-05-13 16:53:20\.987654321 /);
    assert.match(a, /^\/d\/a 2017-07-14 02:40:00\.123456789 \+0000 2 /);
    assert.deepEqual(a.split(" ").slice(1), b.split(" ").slice(1));
    assert.match(other, / 1 \d+$/);
    const link = (await layer()).get("d/m/b")!;
    assert.deepEqual([link.type, link.linkpath], ["hardlink", "d/a"]);
  };
  await look();
  // Also where it is not a new folder, and where the file was fetched before.
  await at.write({ "d/a": "changed" });
  setTimes(`${at.folder}/d/a`, 1_500_000_000, 123_456_789);
  setTimes(`${at.folder}/d`, 1_400_000_000, 987_654_321);
  await look();
  assert.equal((await layer()).get("d/a")!.text, "changed");
  // Two files, where they are no longer one; to the cache they are the same, as to BuildKit's.
  await Deno.remove(`${at.folder}/d/m/b`);
  await at.write({ "d/m/b": "changed" });
  good(await at.svc(["--no-cache"]));
  assert.equal((await layer()).get("d/m/b")!.type, "file");
  // A copy of a few is made without a worker.
  await Deno.remove(`${at.folder}/d/m`, { recursive: true });
  await Deno.link(`${at.folder}/d/a`, `${at.folder}/d/c`);
  await at.write({ Dockerfile: "FROM base\nCOPY d /d\n" });
  good(await at.svc([]));
  assert.equal((await layer()).get("d/c")!.linkpath, "d/a");
});
