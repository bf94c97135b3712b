import assert from "node:assert/strict";
import { renderHelp } from "./help.ts";
import type { AnyOption } from "./load.ts";

Deno.test("help: flags, defaults and variables from the records, within the width", () => {
  const options: AnyOption[] = [
    {
      key: "addr",
      kind: "string",
      flag: "addr",
      short: "a",
      env: ["SVC_ADDR"],
      default: ":5000",
      placeholder: "HOST:PORT",
      help: "Listen address, which is said here in so many words that the line has to be broken.",
      section: "General",
    },
    {
      key: "auto",
      kind: "bool",
      flag: "auto",
      negatable: true,
      default: true,
      help: "Auto.",
      section: "General",
    },
    {
      key: "wait",
      kind: "duration",
      flag: "wait",
      default: 90_000,
      help: "Wait.",
      section: "Other",
    },
    {
      key: "only",
      kind: "bytes",
      env: ["SVC_ONLY"],
      default: 1536,
      absent: "x",
      help: "Env.",
      section: "Other",
    },
  ];
  const page = renderHelp({
    usage: "svc x",
    summary: "Does x.",
    options,
    examples: ["svc x -a :1"],
  }, 70);
  assert.equal(
    page,
    `Usage: svc x

Does x.

General:
  -a, --addr HOST:PORT        Listen address, which is said here in so
                              many words that the line has to be
                              broken. (default :5000; SVC_ADDR)
      --[no-]auto             Auto. (default on)

Other:
      --wait DURATION         Wait. (default 1m30s)
  SVC_ONLY                    Env. (default 1.5 KiB; not in this build
                              yet)

Examples:
  svc x -a :1
`,
  );
});
