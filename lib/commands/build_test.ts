import assert from "node:assert/strict";
import { join } from "node:path";
import { ndjson, svcFake } from "../../test/fixtures/cli.ts";
import type { BuildEvent, BuildResult } from "../api/build.ts";
import { SvcError } from "../base/errors.ts";
import { interruption } from "../base/terminal.ts";

const result: BuildResult = {
  digest: "sha256:" + "a".repeat(64),
  imageId: "sha256:" + "b".repeat(64),
  names: ["localhost:5000/app:v1", "localhost:5000/app:latest"],
  size: 10,
  ran: 1,
  cached: 1,
  durationMs: 5,
};

const time = "2026-01-01T00:00:00Z";
const STORY: BuildEvent[] = [
  { type: "vertex", id: "a", name: "[1/2] FROM scratch", line: 1 },
  { type: "vertex", id: "b", name: "[2/2] RUN make", line: 2 },
  { type: "cached", id: "a" },
  { type: "start", id: "b", time },
  { type: "output", id: "b", stream: "stdout", text: "compiling\nhalf" },
  { type: "output", id: "b", stream: "stdout", text: " a line\n10%\r100%\nlast" },
  { type: "warning", message: "a stage is not used", line: 4 },
  { type: "done", id: "b", durationMs: 1234 },
];

async function folder(files: Record<string, string>): Promise<string> {
  const root = await Deno.makeTempDir({ prefix: "svc-build-" });
  for (const [path, text] of Object.entries(files)) {
    await Deno.mkdir(join(root, path, ".."), { recursive: true });
    await Deno.writeTextFile(join(root, path), text);
  }
  return root;
}

/** Takes the context and answers with these events. */
const answering = (...events: unknown[]) => async (request: Request) => {
  for await (const _ of request.body ?? []) { /* only its end counts */ }
  return ndjson(...events);
};

Deno.test("build: progress on standard error, names with digest on standard output", async () => {
  const root = await folder({ Dockerfile: "FROM scratch\nRUN make\n" });
  try {
    const handler = answering(...STORY, { type: "result", result });
    const args = [
      "build",
      "-t",
      "app:v1",
      "-t",
      "app",
      "--build-arg",
      "A=1,2",
      "--build-arg",
      "FROM_ENV",
    ];
    const more = [
      "--label",
      "l=x y",
      "--target",
      "t",
      "--platform",
      "linux/amd64",
      "--no-cache",
      root,
    ];
    const built = await svcFake([...args, ...more], { handler, env: { FROM_ENV: "e" } });
    assert.equal(built.code, 0);
    assert.equal(built.stdout, result.names.map((name) => `${name}@${result.digest}\n`).join(""));
    assert.equal(
      built.stderr.replace(/\b\d+\.\d{3}\b/g, "0.000"),
      "#1 [1/2] FROM scratch\n#1 CACHED\n\n" +
        "#2 [2/2] RUN make\n#2 0.000 compiling\n#2 0.000 half a line\n#2 0.000 100%\n" +
        "WARNING: line 4: a stage is not used\n#2 0.000 last\n#2 DONE 1.2s\n\n",
    );
    const query = new URLSearchParams(built.requests[0].split("?")[1]);
    assert.deepEqual([...query], [
      ["t", "app:v1"],
      ["t", "app"],
      ["target", "t"],
      ["platform", "linux/amd64"],
      ["nocache", "true"],
      ["buildarg", "A=1,2"],
      ["buildarg", "FROM_ENV=e"],
      ["label", "l=x y"],
      ["dockerfile", "Dockerfile"],
    ]);
    const quiet = await svcFake(["build", "-q", root], { handler });
    assert.deepEqual([quiet.stdout, quiet.stderr], [result.digest + "\n", ""]);
    const json = await svcFake(["build", "--progress", "json", root], { handler });
    const events = json.stdout.trim().split("\n").map((line) => JSON.parse(line));
    assert.deepEqual(events, [...STORY, { type: "result", result }]);
    assert.equal(json.stderr, "");
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

const failure = {
  title: "build failed",
  status: 422,
  code: "build_failed",
  detail: "Cannot build: RUN make: the command ended with exit code 2",
  help: "see the step's output above",
  info: {
    line: 4,
    instruction: "RUN make",
    command: ["/bin/sh", "-c", "make all"],
    exitCode: 2,
    output: "cc: no input\nmake: *** Error\n",
  },
};
const DOCKERFILE = "FROM scratch\n# one\n# two\nRUN make\n\nCMD x\nEXPOSE 1\n";

Deno.test("build: a failure shows the place, the command, its output and exit code", async () => {
  const root = await folder({ Dockerfile: DOCKERFILE });
  try {
    const handler = answering(
      { type: "vertex", id: "b", name: "[2/2] RUN make", line: 4 },
      { type: "start", id: "b", time },
      { type: "failed", id: "b", message: "exit code 2" },
      { type: "error", error: failure },
    );
    const { code, stdout, stderr } = await svcFake(["build", root], { handler });
    assert.deepEqual([code, stdout], [1, ""]);
    const rule = "------\n";
    assert.equal(
      stderr,
      "#1 [2/2] RUN make\n#1 ERROR: exit code 2\n\n" +
        `${rule}> RUN make\ncc: no input\nmake: *** Error\n${rule}` +
        `${
          join(root, "Dockerfile")
        }:4\n2 |     # one\n3 |     # two\n4 | >>> RUN make\n5 |\n6 |     CMD x\n` +
        `${rule}/bin/sh -c "make all"\nexit code: 2\n${rule}` +
        `svc: ${failure.detail}\n  ${failure.help}\n`,
    );
    const json = await svcFake(["build", "--output", "json", root], { handler });
    assert.equal(json.code, 1);
    assert.equal(json.stderr, `svc: ${failure.detail}\n  ${failure.help}\n`);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("build: a Dockerfile refused before the first event shows its line too", async () => {
  const root = await folder({ Dockerfile: "FORM x\n" });
  try {
    const { code, stderr } = await svcFake(["build", root], {
      handler: async (request) => {
        for await (const _ of request.body ?? []) { /* only its end counts */ }
        throw new SvcError("dockerfile_invalid", "Cannot read Dockerfile: line 1: unknown", {
          detail: { line: 1 },
        });
      },
    });
    assert.equal(code, 1);
    assert.match(
      stderr,
      /^------\n.*Dockerfile:1\n1 \| >>> FORM x\n------\nsvc: Cannot read Dockerfile: line 1/,
    );
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("build: a Dockerfile from standard input is named so, not as the archive has it", async () => {
  const root = await folder({ file: "" });
  try {
    const { stderr } = await svcFake(["build", "-f", "-", root], {
      stdin: "FROM scratch\nRUN x\n",
      handler: async (request, url) => {
        for await (const _ of request.body ?? []) { /* only its end counts */ }
        const message = `${url.searchParams.get("dockerfile")}:2: RUN x: exit code 1`;
        return ndjson(
          { type: "vertex", id: "b", name: "RUN x", line: 2 },
          { type: "failed", id: "b", message },
          { type: "error", error: { ...failure, detail: message, info: { line: 2 } } },
        );
      },
    });
    assert.doesNotMatch(stderr, /\.dockerfile\./);
    assert.match(stderr, /^#1 ERROR: Dockerfile \(standard input\):2: RUN x: exit code 1$/m);
    assert.match(stderr, /^svc: Dockerfile \(standard input\):2: RUN x: exit code 1$/m);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("build: a server that answers before it took the context is understood", async () => {
  const root = await folder({ Dockerfile: "FROM scratch\n" });
  try {
    await Deno.writeFile(join(root, "big"), new Uint8Array(8 * 1024 * 1024));
    const { code, stderr } = await svcFake(["build", root], {
      handler: () => {
        throw new SvcError("too_large", "Cannot take the build context: it has more than 1 KiB");
      },
    });
    assert.equal(code, 1);
    assert.match(stderr, /^svc: Cannot take the build context: it has more than 1 KiB\n/);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("build: what the server fetches is named, and nothing is sent", async () => {
  const url = "https://host.example/x.git#main:docker";
  const sent = await svcFake(["build", "-f", "app.Dockerfile", url], {
    handler: answering(...STORY, { type: "result", result }),
  });
  assert.equal(sent.code, 0, sent.stderr);
  const query = new URLSearchParams(sent.requests.at(-1)!.split("?")[1]);
  assert.deepEqual([query.get("remote"), query.get("dockerfile")], [url, "app.Dockerfile"]);
});

Deno.test("build: SOURCE_DATE_EPOCH of the environment goes along, unless a build argument says other", async () => {
  for (
    const [args, epoch] of [[[], "12"], [["--build-arg", "SOURCE_DATE_EPOCH=34"], "34"]] as const
  ) {
    const sent = await svcFake(["build", ...args, "https://host.example/x.git"], {
      handler: answering(...STORY, { type: "result", result }),
      env: { SOURCE_DATE_EPOCH: "12" },
    });
    assert.equal(sent.code, 0, sent.stderr);
    const query = new URLSearchParams(sent.requests.at(-1)!.split("?")[1]);
    assert.deepEqual(query.getAll("buildarg"), [`SOURCE_DATE_EPOCH=${epoch}`]);
  }
});

Deno.test("build: bad input is refused before anything is sent", async () => {
  const root = await folder({ "other/file": "" });
  try {
    const cases: [string[], number, RegExp][] = [
      [["-t", "App:v1", root], 2, /Cannot read image name "App:v1"/],
      [["-t", `app@${result.digest}`, root], 2, /a digest is what a build results in/],
      [
        [root],
        2,
        /Cannot read Dockerfile .*Dockerfile: there is no such file\n {2}name it with -f/,
      ],
      [["-f", join(root, "other"), root], 2, /it is a directory/],
      [
        ["/nonexistent/folder"],
        2,
        /Cannot read build context \/nonexistent\/folder: there is no such/,
      ],
      [[join(root, "other/file")], 2, /it is not a directory/],
      [["-f", "-", "-"], 2, /cannot both come from standard input/],
      [["--build-arg", "=1", root], 2, /Cannot read --build-arg/],
      [["--progress", "loud", root], 2, /--progress: "loud" is not one of/],
      [[], 2, /CONTEXT is missing/],
    ];
    for (const [args, code, text] of cases) {
      const refused = await svcFake(["build", ...args], { handler: answering() });
      assert.match(refused.stderr, text);
      assert.deepEqual([refused.code, refused.requests], [code, []], args.join(" "));
    }
    await Deno.writeTextFile(join(root, "Dockerfile"), "FROM scratch\n");
    const cut = await svcFake(["build", root], { handler: answering(STORY[0]) });
    assert.equal(cut.code, 1);
    assert.match(cut.stderr, /Cannot tell how the build ended/);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("build: an interrupt closes the connection and ends with 130", async () => {
  const root = await folder({ Dockerfile: "FROM scratch\n" });
  const controller = new AbortController();
  const { promise: gone, resolve } = Promise.withResolvers<void>();
  try {
    const { code } = await svcFake(["build", root], {
      signal: controller.signal,
      handler: async (request) => {
        for await (const _ of request.body ?? []) { /* only its end counts */ }
        const body = new ReadableStream<Uint8Array>({
          start: (stream) => {
            stream.enqueue(new TextEncoder().encode(JSON.stringify(STORY[0]) + "\n"));
            setTimeout(() => controller.abort(interruption("SIGINT")), 20);
          },
          cancel: () => resolve(),
        });
        return new Response(body, { headers: { "content-type": "application/x-ndjson" } });
      },
    });
    assert.equal(code, 130);
    await gone;
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("build: on a terminal what runs is redrawn in place, and the cursor comes back", async () => {
  const root = await folder({ Dockerfile: "FROM scratch\n" });
  try {
    const handler = answering(...STORY, { type: "result", result });
    const shown = await svcFake(["build", root], { handler, terminal: { columns: 40, rows: 10 } });
    assert.match(shown.stderr, / => CACHED \[1\/2\] FROM scratch +0\.0s/);
    assert.match(shown.stderr, / => \[2\/2\] RUN make +1\.2s/);
    assert.ok(shown.stderr.endsWith("\x1b[?25h"));
    assert.equal(shown.stdout.split("\n").length, 3);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
