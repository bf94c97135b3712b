import assert from "node:assert/strict";
import { formatOutput, parseOutput } from "./build_output.ts";

Deno.test("outputs: buildx's forms, and back", () => {
  assert.deepEqual(
    [parseOutput("out/dir").type, parseOutput("out/dir").dest, parseOutput("-").type],
    ["local", "out/dir", "tar"],
  );
  const image = parseOutput(
    'type=registry,"name=a:1,b:2",compression=zstd,compression-level=9,force-compression,' +
      '"annotation-index[linux/amd64].x=1,2"',
  );
  assert.deepEqual(image.names, ["a:1", "b:2"]);
  assert.deepEqual([image.type, image.push, image.compression, image.compressionLevel], [
    "image",
    true,
    "zstd",
    9,
  ]);
  assert.deepEqual(image.annotations, ["annotation-index[linux/amd64].x=1,2"]);
  assert.deepEqual(parseOutput(formatOutput(image)), image);
  const unstored = parseOutput("type=image,store=false");
  assert.deepEqual([image.store, unstored.store], [true, false]);
  assert.deepEqual(parseOutput(formatOutput(unstored)), unstored);
  const archive = parseOutput("type=docker,dest=a.tar,oci-mediatypes=false,push=false,tar=1");
  assert.equal(formatOutput(archive), "type=docker,push=false,oci-mediatypes=false");
  assert.equal(parseOutput("type=oci,tar=false,dest=x").folder, true);
});

Deno.test("outputs: what cannot be meant is refused with what it could be", () => {
  const refusals: [string, RegExp][] = [
    ["type=ocl,dest=x", /there is no type "ocl".*oci/],
    ["dest=x,y=1", /no field "y"/],
    ["dest=x", /type is missing/],
    ["type=oci,compresion=zstd", /no field "compresion".*compression/],
    ["type=image,dest=x", /type image has no dest/],
    ["type=oci,compression=xz", /gzip, zstd, uncompressed/],
    ["type=oci,compression-level=11", /from 0 to 9/],
    ["type=oci,compression=zstd,compression-level=x", /from 0 to 22/],
    ["type=local,dest=-", /cannot be standard output/],
    ["type=oci,tar=false", /needs a dest/],
    ["type=oci,tar=maybe", /true or false/],
    ['type=oci,"name=a', /quote is not closed/],
    ["type=oci,=x", /KEY=VALUE/],
    ["type=docker,oci-mediatypes=false,compression=zstd", /no zstd/],
  ];
  for (const [text, why] of refusals) {
    assert.throws(() => parseOutput(text), (error: Error & { code?: string }) => {
      assert.equal(error.code, "argument_invalid");
      assert.match(error.message, why);
      return true;
    }, text);
  }
});
