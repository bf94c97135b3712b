/** Any sequence of requests to one upload, against what the specification says of it. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { runs } from "../../test/fixtures/property.ts";
import { digest, failure, registry } from "./fixture_test.ts";

/** `shift`: how far beside its place a chunk says it is; undefined: it says nothing. */
interface Send {
  kind: "patch" | "put";
  text: string;
  shift?: number;
  /** Bytes that its range names beyond those that it has. */
  excess: number;
  /** Of a put: that of the bytes, of others, or none. */
  digest: "right" | "wrong" | "none";
}

type Step = Send | { kind: "status" | "cancel" | "break"; text: string };

const text = fc.stringMatching(/^[a-z]{0,5}$/);
const send = fc.record({
  kind: fc.constantFrom("patch" as const, "patch" as const, "patch" as const, "put" as const),
  text,
  shift: fc.option(fc.constantFrom(0, 0, 0, 1, -1, 5), { nil: undefined }),
  excess: fc.constantFrom(0, 0, 0, 1, -1),
  digest: fc.constantFrom("right" as const, "right" as const, "wrong" as const, "none" as const),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: send },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("break" as const), text }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("status" as const), text }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom("status" as const, "status" as const, "cancel" as const),
      text,
    }),
  },
);

/** What the upload holds; undefined: it has ended. */
type Held = string | undefined;

/** The answer that a chunk has to get, and what is held then. */
function expected(held: string, { text, shift, excess }: Send): [answer: string, held: string] {
  if (shift === undefined) return ["202", held + text];
  const start = held.length + shift;
  const named = text.length + excess;
  if (start < 0 || named < 1) return ["400 BLOB_UPLOAD_INVALID", held];
  if (excess !== 0) return ["400 SIZE_INVALID", held];
  return shift === 0 ? ["202", held + text] : ["416 BLOB_UPLOAD_INVALID", held];
}

const rangeOf = (held: string) => `0-${Math.max(0, held.length - 1)}`;

Deno.test("no sequence of requests makes an upload lose or invent bytes", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
      const r = registry();
      const started = await r.send("POST", "/v2/a/blobs/uploads/");
      const location = started.headers.get("location")!;
      let held: Held = "";
      const ask = async (method: string, path: string, init = {}) => {
        const response = await r.send(method, path, init);
        const answer = response.status < 400 ? String(response.status) : await failure(response);
        return { answer, range: response.headers.get("range") };
      };
      for (const one of steps) {
        if (held === undefined) {
          const { answer } = await ask("GET", location);
          assert.equal(answer, "404 BLOB_UPLOAD_UNKNOWN");
        }
        if (one.kind === "cancel") {
          const { answer } = await ask("DELETE", location);
          assert.equal(answer, held === undefined ? "404 BLOB_UPLOAD_UNKNOWN" : "204");
          held = undefined;
        } else if (one.kind === "break" && held !== undefined) {
          const pieces = [...one.text].map((letter) => new TextEncoder().encode(letter));
          const body = new ReadableStream({
            pull(controller) {
              const piece = pieces.shift();
              if (piece) controller.enqueue(piece);
              else controller.error(new Error("gone"));
            },
          });
          await ask("PATCH", location, { body });
          held += one.text;
        } else if ((one.kind === "patch" || one.kind === "put") && held !== undefined) {
          const headers: Record<string, string> = { "content-length": String(one.text.length) };
          if (one.shift !== undefined) {
            const start = held.length + one.shift;
            headers["content-range"] = `${start}-${start + one.text.length + one.excess - 1}`;
          }
          const [answer, then]: [string, string] = expected(held, one);
          const init = { headers, ...(one.text !== "" && { body: one.text }) };
          if (one.kind === "patch") {
            const got = await ask("PATCH", location, init);
            assert.equal(got.answer, answer);
            if (answer === "202") assert.equal(got.range, rangeOf(then));
            if (answer.startsWith("416")) assert.equal(got.range, rangeOf(held));
            held = then;
          } else {
            const whole = digest(one.digest === "right" ? then : `${then}!`);
            const query = one.digest === "none" ? "" : `?digest=${whole}`;
            const got = await ask("PUT", `${location}${query}`, init);
            if (one.digest === "none") assert.equal(got.answer, "400 DIGEST_INVALID");
            else if (answer !== "202") assert.equal(got.answer, answer);
            else {
              assert.equal(got.answer, one.digest === "right" ? "201" : "400 DIGEST_INVALID");
              const there = await r.send("GET", `/v2/a/blobs/${whole}`);
              assert.equal(there.status, one.digest === "right" ? 200 : 404);
              if (there.status === 200) assert.equal(await there.text(), then);
              held = undefined;
            }
          }
        }
        if (held === undefined) continue;
        const { answer, range } = await ask("GET", location);
        assert.equal(answer, "204");
        assert.equal(range, rangeOf(held));
      }
    }),
    runs(300),
  );
});
