/** The look of progress: what docker compose 2.40 shows on a terminal 60 columns wide, and elsewhere. */
import assert from "node:assert/strict";
import type { Io } from "../../base/terminal.ts";
import type { Step } from "../../compose/steps.ts";
import { MEDIA } from "../../oci/types.ts";
import type { Plan } from "../../transfer/plan.ts";
import { layersReporter } from "./layers.ts";
import { betweenLines, openProgress } from "./progress.ts";

type Values = Parameters<typeof openProgress>[0]["values"];

const UP: readonly Step[] = [
  { id: "Network shop_default", status: "Created", end: "done" },
  { id: "web", text: "Pulled", status: "", end: "done" },
  { id: "Container shop-web-1", status: "Starting" },
  { id: "Container shop-web-1", status: "Error", end: "error" },
];

/** What the steps of a small `up` write. */
async function shown(
  values: Partial<Values>,
  isTerminal: boolean,
  env = {},
  steps: readonly Step[] = UP,
): Promise<string> {
  let text = "";
  const stderr = {
    write: (data: string | Uint8Array) => {
      text += typeof data === "string" ? data : new TextDecoder().decode(data);
      return Promise.resolve();
    },
    isTerminal,
    size: () => ({ columns: 60, rows: 20 }),
  };
  const call = {
    io: { stderr } as unknown as Io,
    values: { composeProgress: "auto", ansi: "auto", output: "auto", ...values } as Values,
    env,
  };
  {
    await using progress = openProgress(call);
    for (const step of steps) progress.step(step);
  }
  return text;
}

/** The last frame; its times are 0.0s. */
const lastFrame = (text: string) =>
  text.slice(text.lastIndexOf("[+]")).replace(/\d+\.\ds/g, "0.0s");

Deno.test("progress: rows with marks, colours and times at the right edge", async () => {
  const text = lastFrame(await shown({}, true));
  assert.equal(
    text,
    "[+] Running 3/3\x1b[39m\n" +
      " \x1b[32m✔\x1b[39m Network shop_default  \x1b[32mCreated\x1b[39m                       \x1b[34m0.0s \x1b[39m\n" +
      " \x1b[32m✔\x1b[39m web Pulled                                          \x1b[34m0.0s \x1b[39m\n" +
      " \x1b[31m\x1b[1m✘\x1b[22m\x1b[39m Container shop-web-1  \x1b[31m\x1b[1mError\x1b[22m\x1b[39m" +
      "                         \x1b[34m0.0s \x1b[39m\n\x1b[?25h",
  );
});

Deno.test("progress: without colours where NO_COLOR or --ansi never say so", async () => {
  const plain = lastFrame(await shown({ composeProgress: "tty" }, true, { NO_COLOR: "1" }));
  assert.equal(
    plain,
    "[+] Running 3/3\n" +
      " ✔ Network shop_default  Created                       0.0s \n" +
      " ✔ web Pulled                                          0.0s \n" +
      " ✘ Container shop-web-1  Error                         0.0s \n\x1b[?25h",
  );
  assert.ok(!(await shown({ ansi: "never" }, true)).includes("\x1b"));
});

Deno.test("progress: layers are rows below their image, and a sum in its row", async () => {
  const steps: Step[] = [
    { id: "other", text: "Pulling", status: "" },
    { id: "web", text: "Pulling", status: "" },
    {
      id: "e3fae2388899",
      parent: "web",
      text: "Pulling fs layer",
      status: "",
      current: -1,
      total: 9,
    },
    {
      id: "e3fae2388899",
      parent: "web",
      text: "Downloading",
      status: "",
      current: 25_260_000,
      total: 62_930_000,
    },
    {
      id: "138d7b4209c3",
      parent: "web",
      text: "Pull complete",
      status: "",
      current: 1000,
      total: 1000,
      end: "done",
    },
    { id: "other", text: "Pulled", status: "", end: "done" },
  ];
  const text = lastFrame(await shown({ composeProgress: "tty" }, true, { NO_COLOR: "1" }, steps));
  // The rows of docker compose 2.40, but for a blank; which sign turns depends on the time.
  const still = text.replaceAll(/ +0\.0s /g, "").replaceAll(/(?<=^ +)[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/gm, "~");
  assert.deepEqual(still.split("\n").slice(0, -1), [
    "[+] Running 2/4",
    " ✔ other Pulled",
    " ~ web [⣄⣿] 25.26MB / 62.93MB Pulling",
    "   ~ e3fae2388899 Downloading 25.26MB/62.93MB",
    "   ✔ 138d7b4209c3 Pull complete",
  ]);
  const lines = await shown({ composeProgress: "plain" }, true, {}, steps);
  assert.match(lines, /^ e3fae2388899 Downloading $/m);
  assert.match(await shown({ composeProgress: "json" }, true, {}, steps), /"parent_id":"web"/);
});

Deno.test("progress: of a transfer's blobs the layers are told, by what becomes of them", () => {
  const told: Step[] = [];
  const blob = (letter: string, mediaType: string) => ({
    ...{ mediaType, size: 10, digest: `sha256:${letter.repeat(64)}` },
  });
  const [a, b] = [blob("a", MEDIA.layerGzip), blob("b", MEDIA.layerTar)];
  const reporter = layersReporter("web", (step) => told.push(step));
  reporter.plan({ blobs: [blob("c", MEDIA.config), a, b] } as unknown as Plan, "", "");
  reporter.progress(a, 4);
  reporter.progress(a, 10);
  reporter.done(a, "copied");
  reporter.done(b, "exists");
  reporter.done(blob("c", MEDIA.config), "copied");
  assert.ok(told.every(({ parent }) => parent === "web"));
  assert.deepEqual(told.map(({ id, text, current, end }) => [id, text, current, end]), [
    ["aaaaaaaaaaaa", "Pulling fs layer", -1, undefined],
    ["bbbbbbbbbbbb", "Pulling fs layer", -1, undefined],
    ["aaaaaaaaaaaa", "Downloading", 4, undefined],
    ["aaaaaaaaaaaa", "Pull complete", 10, "done"],
    ["bbbbbbbbbbbb", "Already exists", 10, "done"],
  ]);
});

Deno.test("progress: lines on a pipe, JSON, and nothing", async () => {
  assert.equal(
    await shown({}, false),
    " Network shop_default  Created\n web Pulled \n Container shop-web-1  Starting\n" +
      " Container shop-web-1  Error\n",
  );
  assert.deepEqual(
    (await shown({ composeProgress: "json" }, true)).trim().split("\n").map((line) =>
      JSON.parse(line)
    ),
    [
      { id: "Network shop_default", status: "Created" },
      { id: "web", text: "Pulled" },
      { id: "Container shop-web-1", status: "Starting" },
      { id: "Container shop-web-1", status: "Error", error: true },
    ],
  );
  assert.equal(await shown({ composeProgress: "quiet" }, true), "");
});

Deno.test("progress: between lines of logs nothing is drawn in place; JSON stays JSON", () => {
  const mode = (values: object) =>
    betweenLines({ values } as Parameters<typeof betweenLines>[0]).values;
  assert.deepEqual(mode({ composeProgress: "auto", output: "auto" }), {
    composeProgress: "plain",
    output: "plain",
  });
  for (const composeProgress of ["json", "quiet"]) {
    assert.equal(mode({ composeProgress, output: "auto" }).composeProgress, composeProgress);
  }
  assert.equal(mode({ composeProgress: "auto", output: "json" }).composeProgress, "auto");
});
