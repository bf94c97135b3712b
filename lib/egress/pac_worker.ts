/**
 * The Worker behind pac.ts: evaluates one script at a time in a machine of its own (QuickJS in WebAssembly), which has
 * neither network nor files nor clock nor randomness. Nothing stays from one decision to the next, so the same
 * question always gets the same answer.
 */
import variant from "@jitl/quickjs-singlefile-mjs-release-sync";
import {
  newQuickJSWASMModuleFromVariant,
  type QuickJSContext,
  type QuickJSWASMModule,
} from "quickjs-emscripten-core";
import type { FromPacWorker, PacJob } from "./pac.ts";
import { PAC_FUNCTIONS } from "./pac_functions.ts";

const MEMORY = 16 << 20;
const STACK = 256 << 10;
/** Times that the machine asks whether to go on, each after some ten thousand steps: the same on every machine. */
const PATIENCE = 500;

/** Of the language: no Date, no Promise. */
const INTRINSICS = {
  BaseObjects: true,
  Eval: true,
  StringNormalize: true,
  RegExp: true,
  JSON: true,
  MapSet: true,
} as const;

const scope = self as unknown as {
  postMessage(message: FromPacWorker): void;
  onmessage: (event: MessageEvent<PacJob>) => void;
};

const machine = newQuickJSWASMModuleFromVariant(variant);

/** Characters of what a script throws that are told. */
const SHOWN = 300;

/** Failures after which a machine can be tidied up; not so after one out of memory, stack or patience. */
const SOUND = new Set(["Error", "SyntaxError", "ReferenceError", "TypeError"]);

/** Any other failure. */
class Broken extends Error {}

/** Throws what the code throws, as an `Error`. */
function evaluate(context: QuickJSContext, code: string, name: string): unknown {
  const result = context.evalCode(code, name);
  if (result.error) {
    const thrown = context.dump(result.error);
    result.error.dispose();
    const said = typeof thrown?.message === "string" ? thrown.message : String(thrown);
    const why = said.slice(0, SHOWN);
    throw SOUND.has(thrown?.name) ? new Error(why) : new Broken(why);
  }
  const value = context.dump(result.value);
  result.value.dispose();
  return value;
}

/** What the script says in this context. */
function asked(context: QuickJSContext, { script, ask }: PacJob): string | undefined {
  const { url = "", host = "", address = "" } = ask ?? {};
  const words = (...texts: string[]) => texts.map((text) => JSON.stringify(text)).join(",");
  evaluate(context, `${PAC_FUNCTIONS}(${words(host, address)});`, "functions");
  evaluate(context, `${script}\n;0`, "script");
  const is = evaluate(context, "typeof FindProxyForURL", "check");
  if (is !== "function") throw new Error("it has no function FindProxyForURL");
  if (!ask) return undefined;
  const found = evaluate(context, `FindProxyForURL(${words(url, host)})`, "call");
  if (typeof found !== "string") throw new Error("FindProxyForURL gave no text");
  return found;
}

function answer(quickjs: QuickJSWASMModule, job: PacJob): string | undefined {
  const runtime = quickjs.newRuntime();
  runtime.setMemoryLimit(MEMORY);
  runtime.setMaxStackSize(STACK);
  let looks = 0;
  runtime.setInterruptHandler(() => ++looks > PATIENCE);
  const context = runtime.newContext({ intrinsics: INTRINSICS });
  let broken = false;
  try {
    return asked(context, job);
  } catch (error) {
    broken = error instanceof Broken;
    throw error;
  } finally {
    if (!broken) { for (const one of [context, runtime]) one.dispose(); }
  }
}

scope.onmessage = async ({ data }) => {
  try {
    const quickjs = await machine;
    scope.postMessage({ type: "began" });
    scope.postMessage({ type: "done", answer: answer(quickjs, data) });
  } catch (error) {
    const ofScript = error instanceof Error && error.constructor === Error;
    scope.postMessage({ type: "failed", why: (error as Error).message, broken: !ofScript });
  }
};
