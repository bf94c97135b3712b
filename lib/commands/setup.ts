/** `svc setup`: asks questions, tests the connection, and writes the context. */
import type { ServerInfo } from "../api/info.ts";
import { CONFIG_OPTIONS, FIELD_KEY } from "./config/options.ts";
import { checkWay } from "../client/doctor/way.ts";
import { editProfile } from "../client/profile/file.ts";
import { requireProfilePath } from "../client/profile/location.ts";
import { absolutePaths } from "../client/profile/paths.ts";
import type { Context } from "../client/profile/types.ts";
import { contextTarget } from "../client/resolve.ts";
import type { Invocation } from "./command.ts";
import { openConnection } from "./connect.ts";
import { checkLine } from "./doctor/line.ts";
import { type Ask, plainAsk } from "./setup/ask.ts";
import { askTunnel } from "./setup/tunnel.ts";
import { type Answers, askAll, contextOf } from "./setup/steps.ts";

const quote = (word: string) =>
  /^[\w./:@,+=~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

/** The flags of `svc config set-context` that make this context; a token is read from standard input. */
export function equivalent(name: string, context: Context): string {
  const words = ["svc", "config", "set-context", quote(name)];
  const walk = (value: unknown, path: string[]): void => {
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      for (const [key, inner] of Object.entries(value)) walk(inner, [...path, key]);
      return;
    }
    const key = path.join(".");
    const flag = key === "server"
      ? "server"
      : CONFIG_OPTIONS.find((option) => option.key === FIELD_KEY + key)?.flag ?? key;
    if (typeof value === "boolean") words.push(`--${value ? "" : "no-"}${flag}`);
    else words.push(`--${flag}`, key === "token" ? "-" : quote(String(value)));
  };
  walk(context, []);
  return [...words, "--current"].join(" ");
}

async function openAsk({ io }: Invocation): Promise<Ask> {
  // Menus wrap at the terminal's width: a terminal without a known width gets plain lines.
  const columns = io.stderr.size()?.columns ?? 0;
  if (!io.stdin.isTerminal || !io.stderr.isTerminal || columns < 20) return plainAsk(io);
  return (await import("./setup/menus.ts")).menuAsk();
}

/** Shows every step of the way with a hint where it failed; the server's info where all steps work. */
async function test(
  invocation: Invocation,
  context: Context,
): Promise<Partial<ServerInfo> | undefined> {
  const { io, env, values } = invocation;
  await using cleanup = new AsyncDisposableStack();
  const target = contextTarget(
    absolutePaths(context, Deno.cwd(), env.HOME ?? env.USERPROFILE),
    "the answers",
  );
  try {
    const connection = await openConnection({ io, env, values, cleanup }, target);
    const { checks, info = {} } = await checkWay({ ...connection, signal: io.signal });
    for (const check of checks) await io.stderr.write(checkLine(check));
    return checks.every(({ outcome }) => outcome !== "failed") ? info : undefined;
  } catch (error) {
    io.signal.throwIfAborted();
    const { message, help } = error as Error & { help?: string };
    await io.stderr.write(
      checkLine({ name: "connection", outcome: "failed", detail: message, help }),
    );
    return undefined;
  }
}

async function save(path: string, name: string, context: Context): Promise<void> {
  await editProfile(path, (document) => {
    document.setIn(["contexts", name], document.createNode(context));
    document.setIn(["current-context"], name);
  });
}

export async function run(invocation: Invocation): Promise<number> {
  const { io, env, values } = invocation;
  const path = requireProfilePath({ os: Deno.build.os, env, explicit: values.configFile });
  const ask = await openAsk(invocation);
  const answers: Answers = {};
  await io.stderr.write("Answer < to go back to the question before.\n");
  for (;;) {
    await askAll(ask, answers, { home: env.HOME ?? env.USERPROFILE });
    const absolute = (context: Context) =>
      absolutePaths(context, Deno.cwd(), env.HOME ?? env.USERPROFILE);
    let context = absolute(contextOf(answers));
    const name = answers.name!;
    await io.stderr.write("\n");
    const info = await test(invocation, context);
    if (info) {
      const tunnel = await askTunnel(ask, info);
      if (!tunnel) continue;
      context = { ...context, ...absolute(tunnel) };
    }
    const works = info !== undefined;
    const next = works ? "save" : await ask.select("The connection does not work yet. What now?", [
      { value: "again", label: "change the answers" },
      { value: "save", label: "save them as they are" },
      { value: "quit", label: "end without saving" },
    ], "again");
    if (next === "quit") return 1;
    if (next !== "save") continue;
    await save(path, name, context);
    await io.stderr.write(
      `\nsaved context ${name} in ${path}, and selected it; the same by hand:\n`,
    );
    await io.stdout.write(`${equivalent(name, context)}\n`);
    return works ? 0 : 1;
  }
}
