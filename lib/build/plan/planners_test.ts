/** Dockerfiles that would stop a server that planned on its event loop. */
import assert from "node:assert/strict";
import { longestTurn } from "../../../test/fixtures/cpu_time.ts";
import { holdTimers } from "../../../test/fixtures/held_timers.ts";
import { eventually } from "../../../test/waits.ts";
import { SvcError } from "../../base/errors.ts";
import { WORKER_IDLE_MS } from "../../base/worker_pool.ts";
import type { ImageResolver, ResolvedImage } from "../../oci/resolver.ts";
import type { PlanJob } from "./plan_wire.ts";
import type { BuildPlan } from "./graph.ts";
import { Planners } from "./planners.ts";

const PLATFORM = { os: "linux", architecture: "amd64" };

const images: Pick<ImageResolver, "resolve"> = {
  async resolve(name) {
    await new Promise((next) => setTimeout(next, 20));
    if (name === "gone") throw new SvcError("manifest_unknown", "Cannot find image gone: none");
    return {
      name,
      config: {
        ...PLATFORM,
        config: { Env: ["PATH=/bin"] },
        rootfs: {
          type: "layers",
          diff_ids: Array(name === "deep" ? 499 : 1).fill(`sha256:${"1".repeat(64)}`),
        },
      },
      repository: name,
    } as unknown as ResolvedImage;
  },
};

const job = (text: string): PlanJob => ({
  text,
  file: "Dockerfile",
  ignore: { patterns: [] },
  buildArgs: {},
  labels: {},
  platforms: [PLATFORM],
  contexts: [["files", { label: "files" }]],
});

function plan(planners: Planners, text: string, signal = new AbortController().signal) {
  const tree = { identity: () => Promise.resolve("files"), open: () => Promise.reject() };
  return planners.plan(job(text), {
    images,
    contexts: new Map([["files", { label: "files", tree }]]),
    signal,
  });
}

Deno.test("a plan made in a Worker is complete: images, trees, one file system for all that share it", async () => {
  using planners = new Planners();
  const [result]: BuildPlan[] = await plan(
    planners,
    "FROM base AS a\nRUN true\nFROM a\nCOPY --from=files x /\nADD https://host.example/f /\n" +
      "ADD https://host.example/r.git /r/\nCOPY --from=a /x /",
  );
  const [image, run, files, copy, http] = result.vertices;
  assert.ok(image.kind === "image" && image.image.repository === "base");
  assert.equal(result.base, image.image);
  assert.ok(run.kind === "run" && run.base === image);
  assert.ok(files.kind === "tree" && await files.tree.identity({} as never) === "files");
  assert.ok(copy.kind === "copy" && copy.base === run && copy.parts[0].from === files);
  assert.ok(http.kind === "tree" && "url" in http.tree);
  assert.equal(result.root, result.vertices.at(-1));
  assert.equal(result.history.at(-1)!.vertex, result.root);
});

/** Threads of Workers: Deno names them so. */
const workers = () =>
  [...Deno.readDirSync("/proc/self/task")].filter(({ name }) =>
    Deno.readTextFileSync(`/proc/self/task/${name}/comm`).startsWith("worker-")
  ).length;

Deno.test({
  name: "the Worker that plans waits for the next plan for a while, and then ends",
  ignore: Deno.build.os !== "linux",
  fn: workerEnds,
});

async function workerEnds() {
  using timers = holdTimers(WORKER_IDLE_MS);
  using planners = new Planners();
  await plan(planners, "FROM base");
  assert.equal(workers(), 1);
  assert.equal(timers.fire(), 1);
  await eventually("it has ended", () => workers() === 0);
}

Deno.test("what a plan fails with is what it would fail with here", async () => {
  using planners = new Planners();
  await assert.rejects(plan(planners, "FROM base\n\nFROM gone"), (error: SvcError) => {
    assert.deepEqual([error.code, error.detail?.line], ["manifest_unknown", 3]);
    assert.match(error.message, /^Line 3: Cannot find image gone/);
    return true;
  });
  await assert.rejects(plan(planners, "NOPE"), { code: "dockerfile_invalid" });
  const abort = new AbortController();
  const cancelled = plan(planners, "FROM base", abort.signal);
  abort.abort(new SvcError("cancelled", "enough"));
  await assert.rejects(cancelled, { code: "cancelled" });
  assert.equal((await plan(planners, "FROM base")).length, 1, "the next one is none the worse");
});

const LONG = `ENV A=${"a".repeat(1000)}\n`;

const HOSTILE: [name: string, text: string, refused?: RegExp][] = [
  ["a pattern of many stars", `FROM base\nENV A=${"a".repeat(3000)}\nENV B=\${A//*a*a*a*b/}\n`],
  [
    "all ports, 40 times",
    `FROM base\n${"EXPOSE 1-65535/udp\n".repeat(40)}`,
    /line 4: the ports that EXPOSE names are more than 131,072/,
  ],
  [
    "all ports in stages",
    `FROM base AS s0\nEXPOSE 1-65535\n${
      Array.from({ length: 400 }, (_, i) => `FROM s${i} AS s${i + 1}\n`).join("")
    }`,
    /line \d+: with its variables expanded it is longer than 16 MiB/,
  ],
  [
    "a variable that doubles",
    `FROM base\n${LONG}${"ENV A=$A$A\n".repeat(30)}`,
    /on line 13 of Dockerfile: its value is longer than 1 MiB/,
  ],
  [
    "large variables in many steps",
    `FROM base\n${LONG}${"ENV A=$A$A\n".repeat(9)}${"RUN true\n".repeat(450)}`,
    /line 42: with its variables expanded it is longer than 16 MiB/,
  ],
  ["too many instructions", `FROM base\n${"ENV A=1\n".repeat(5000)}`, /line 5001: .*5000 instr/],
  [
    "too many stages",
    Array.from({ length: 502 }, (_, i) => `FROM base AS s${i}\n`).join(""),
    /line 502: there are more than 500 stages/,
  ],
  [
    "names that every stage hands on",
    `FROM scratch AS s0\nENV ${Array.from({ length: 100_000 }, (_, i) => `V${i}=1`).join(" ")}\n${
      Array.from({ length: 490 }, (_, i) => `FROM s${i} AS s${i + 1}\n`).join("")
    }`,
    /longer than 16 MiB/,
  ],
  [
    "stages upon stages",
    `FROM base AS s0\n${
      Array.from({ length: 490 }, (_, i) => `FROM s${i} AS s${i + 1}\n`).join("")
    }`,
  ],
  [
    "more layers than a file system can have",
    `FROM base\n${"RUN true\n".repeat(500)}`,
    /line 501: this is layer 501, and a file system has at most 500 layers/,
  ],
  ["few layers on many", "FROM deep\nRUN true\nRUN true", /line 3: this is layer 501,/],
];

Deno.test("hostile Dockerfiles fail with their line, and the event loop goes on", async (t) => {
  using planners = new Planners();
  await plan(planners, "FROM base");
  for (const [name, text, refused] of HOSTILE) {
    await t.step(name, async () => {
      const stall = await longestTurn(async () => {
        if (!refused) await plan(planners, text);
        else {
          await assert.rejects(plan(planners, text), (error: SvcError) => {
            assert.equal(error.code, "dockerfile_invalid");
            assert.equal(typeof error.detail?.line, "number");
            assert.match(error.message, refused);
            return true;
          });
        }
      });
      assert.ok(stall < 400, `the event loop had no turn for ${stall} ms`);
    });
  }
});

Deno.test("planning has a time limit, and what a registry takes is not part of it", async () => {
  using planners = new Planners({ time: 1, megabytes: 256 });
  const names = Array.from({ length: 200_000 }, (_, i) => `V${i}=1`).join(" ");
  await assert.rejects(plan(planners, `FROM base\nENV ${names}\n`), (error: SvcError) => {
    assert.equal(error.code, "dockerfile_invalid");
    assert.match(
      error.message,
      /^Cannot build Dockerfile: line [12]: reading it takes too long, or/,
    );
    return true;
  });
  using patient = new Planners({ time: 5_000, megabytes: 256 });
  assert.equal((await plan(patient, "FROM base\nFROM base")).length, 1);
});

Deno.test("planning has a memory limit: the server does not end with it", async () => {
  using planners = new Planners({ time: 4000, megabytes: 16 });
  const names = Array.from({ length: 200_000 }, (_, i) => `V${i}=1`).join(" ");
  await assert.rejects(plan(planners, `FROM base\nENV ${names}\n`), /or too much memory$/);
  assert.equal((await plan(planners, "FROM base")).length, 1, "another one has its own");
});
