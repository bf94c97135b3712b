import assert from "node:assert/strict";
import type { StorageProbe } from "./command.ts";
import { run } from "./doctor.ts";

async function doctor(
  words: string[],
  probes: StorageProbe[] = [],
  output: "text" | "json" = "text",
): Promise<{ code: number; text: string; asked: string[] }> {
  let text = "";
  const asked: string[] = [];
  const code = await run(
    {
      values: { output },
      positionals: words,
      env: {},
      io: {
        stdout: { write: (part: string) => void (text += part) },
        signal: new AbortController().signal,
      },
      hooks: {
        async *probeStorage(location: string) {
          asked.push(location);
          yield* probes;
        },
      },
    } as unknown as Parameters<typeof run>[0],
  );
  return { code, text, asked };
}

const probe = (operation: string, ok: boolean, needed = true, detail = "") => ({
  operation,
  ok,
  needed,
  detail,
});

Deno.test("doctor: what is missing decides the exit code, what has a substitute does not", async () => {
  const fine = [probe("put", true), probe("conditions", false, false, "ignored; svc looks first")];
  assert.deepEqual(await doctor(["s3", "s3://b?region=x"], fine), {
    code: 0,
    text: "ok       put\nwithout  conditions\n         ignored; svc looks first\n",
    asked: ["s3://b?region=x"],
  });
  const lacking = [probe("put", false, true, "denied"), ...fine];
  const { code, text } = await doctor(["s3", "S3://b"], lacking);
  assert.equal(code, 1);
  assert.match(text, /^MISSING {2}put\n {9}denied\nok /);
  const { asked } = await doctor(["storage", "azblob://c"], fine);
  assert.deepEqual(asked, ["azblob://c"]);
  const json = await doctor(["s3", "s3://b"], lacking, "json");
  assert.deepEqual(json.text.trim().split("\n").map((line) => JSON.parse(line)), lacking);
});

Deno.test("doctor: other words are refused before anything is tried", async () => {
  for (
    const words of [["gs", "gs://b"], ["s3", "/srv/store"], ["s3", "gs://b"], ["storage", "/srv"]]
  ) {
    await assert.rejects(doctor(words), { code: "usage" });
  }
});
