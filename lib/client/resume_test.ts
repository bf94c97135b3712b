import assert from "node:assert/strict";
import type { LogFrame } from "../api/deployment.ts";
import { SvcError } from "../base/errors.ts";
import type { Client } from "./client.ts";
import { readActivity } from "./auth_keys.ts";
import { readLogs } from "./deployments.ts";

const frame = (ms: number, line: string, instance = "a"): LogFrame => ({
  time: new Date(1_800_000_000_000 + ms).toISOString().replace("Z", "000123Z"),
  instance,
  stream: "stdout",
  line,
});

const BROKEN = new SvcError("upstream_failed", "Cannot read the events: the connection was closed");

/** A client whose answers are these, one a call; an error stands for a connection that breaks there. */
function client(answers: (LogFrame | SvcError | { error: unknown })[][], resumes = true) {
  const since: (string | undefined)[] = [];
  const fake = {
    resumes,
    async *events(_name: string, call: { query: { since?: string } }) {
      since.push(call.query.since);
      for (const answer of answers.shift()!) {
        if (answer instanceof SvcError) throw answer;
        yield answer;
      }
    },
  } as unknown as Client;
  return { fake, since };
}

async function lines(fake: Client, follow = true): Promise<string[]> {
  const found: string[] = [];
  for await (const { line } of readLogs(fake, "web", { follow, tail: 5 })) found.push(line);
  return found;
}

Deno.test("logs: a followed log goes on where a tunnel broke, no line twice and none lost", async () => {
  const [one, two, three] = [frame(0, "one"), frame(1500, "two"), frame(1500, "three", "b")];
  const { fake, since } = client([
    [one, two, two, BROKEN],
    [BROKEN],
    [two, two, three, two, frame(1600, "four")],
  ]);
  assert.deepEqual(await lines(fake), ["one", "two", "two", "three", "two", "four"]);
  assert.equal(since[0], undefined);
  assert.equal(since[1], new Date(1_800_000_000_500).toISOString());
});

Deno.test("logs: what is not followed, cannot be opened again, or was reported, ends", async () => {
  await assert.rejects(lines(client([[BROKEN]]).fake, false), /was closed/);
  await assert.rejects(lines(client([[BROKEN]], false).fake), /was closed/);
  const reported = {
    error: {
      code: "upstream_failed",
      detail: "Cannot read the log: gone",
      title: "",
      status: 502,
      help: "",
    },
  };
  await assert.rejects(lines(client([[reported]]).fake), /Cannot read the log: gone/);
});

Deno.test("resume: a flight record that is followed goes on where its connection broke, no entry twice", async () => {
  const entry = (ms: number, name: string) => ({
    ...{ time: new Date(1_800_000_000_000 + ms).toISOString(), subject: "a", remote: "::1" },
    ...{ action: "push", operation: "PUT /v2/", name, result: "ok", status: 201, bytes: 0 },
    ...{ durationMs: 1, request: name },
  });
  const answers = () => [
    [entry(0, "a"), entry(10, "b"), BROKEN],
    [entry(0, "a"), entry(10, "b"), entry(20, "c")],
  ];
  const names = async (follow: boolean, resumes: boolean) => {
    const { fake, since } = client(answers() as never, resumes);
    const found: string[] = [];
    for await (const { name } of readActivity(fake, { follow, tail: 5 })) found.push(name!);
    return { found, since };
  };
  const { found, since } = await names(true, true);
  assert.deepEqual(found, ["a", "b", "c"]);
  assert.deepEqual(since, [undefined, new Date(1_800_000_000_000 + 10 - 1000).toISOString()]);
  await assert.rejects(names(true, false), /the connection was closed/);
  await assert.rejects(names(false, true), /the connection was closed/);
});
