/** `svc info`: the server's description of itself. */
import { API_PREFIX } from "../client/client.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** "buildTags" becomes "Build tags". */
function label(key: string): string {
  const words = key.replace(/([a-z])([A-Z])/g, (_, a, b) => `${a} ${b.toLowerCase()}`);
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function text(value: unknown): string {
  if (Array.isArray(value)) return value.map(text).join(", ") || "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return isRecord(value) ? JSON.stringify(value) : String(value);
}

/** Any document as indented lines: members that only a newer server has are shown too. */
function renderInfo(info: Record<string, unknown>, indent = ""): string {
  return Object.entries(info).filter(([, value]) => value !== null && value !== undefined)
    .map(([key, value]) =>
      isRecord(value)
        ? `${indent}${label(key)}:\n${renderInfo(value, indent + "  ")}`
        : `${indent}${label(key)}: ${text(value)}\n`
    ).join("");
}

export async function run(invocation: Invocation): Promise<number> {
  const client = await connect(invocation);
  const info = await client.json("GET /info");
  await invocation.io.stdout.write(
    invocation.values.output === "json"
      ? JSON.stringify(info) + "\n"
      : `Server: ${client.server}${API_PREFIX}\n${renderInfo({ ...info })}`,
  );
  return 0;
}
