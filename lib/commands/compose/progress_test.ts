/** The look of progress: what docker compose 2.40 shows on a terminal 60 columns wide, and elsewhere. */
import assert from "node:assert/strict";
import type { Io } from "../../base/terminal.ts";
import { betweenLines, openProgress } from "./progress.ts";

type Values = Parameters<typeof openProgress>[0]["values"];

/** What the steps of a small `up` write. */
async function shown(values: Partial<Values>, isTerminal: boolean, env = {}): Promise<string> {
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
    progress.step({ id: "Network shop_default", status: "Created", end: "done" });
    progress.step({ id: "web", text: "Pulled", status: "", end: "done" });
    progress.step({ id: "Container shop-web-1", status: "Starting" });
    progress.step({ id: "Container shop-web-1", status: "Error", end: "error" });
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
      " \x1b[32m✔\x1b[39m web                  \x1b[32mPulled\x1b[39m                         \x1b[34m0.0s \x1b[39m\n" +
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
      " ✔ web                  Pulled                         0.0s \n" +
      " ✘ Container shop-web-1  Error                         0.0s \n\x1b[?25h",
  );
  assert.ok(!(await shown({ ansi: "never" }, true)).includes("\x1b"));
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
