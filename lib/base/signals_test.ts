import assert from "node:assert/strict";
import { signalNumber } from "./signals.ts";

Deno.test("signals by name and number, in every spelling", () => {
  const known: [string, number][] = [
    ["SIGTERM", 15],
    ["term", 15],
    ["Sigkill", 9],
    ["15", 15],
    ["64", 64],
    ["SIGPOLL", 29],
    ["SIGSYS", 31],
    ["SIGRTMIN", 34],
    ["SIGRTMIN+3", 37],
    ["rtmin+30", 64],
    ["RTMAX-14", 50],
    ["SIGRTMAX", 64],
  ];
  for (const [text, number] of known) assert.equal(signalNumber(text), number, text);
});

Deno.test("what is not a signal has no number", () => {
  const unknown = ["", "0", "65", "-9", "9.5", "SIG", "NOPE", "RTMIN+31", "RTMAX-31", "RTMIN-1"];
  for (const text of [...unknown, "TERM\n", "RTMIN+"]) {
    assert.equal(signalNumber(text), undefined, JSON.stringify(text));
  }
});
