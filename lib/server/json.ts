/** JSON in and out. */
import { readAtMost } from "../base/collect.ts";
import { SvcError } from "../base/errors.ts";

const encoder = new TextEncoder();

/** A JSON answer with its length, on one line with a newline: readable with curl. */
export function json(
  value: unknown,
  init: { status?: number; headers?: Record<string, string> } = {},
): Response {
  const bytes = encoder.encode(JSON.stringify(value) + "\n");
  return new Response(bytes, {
    status: init.status ?? 200,
    headers: {
      "content-type": "application/json",
      "content-length": String(bytes.length),
      ...init.headers,
    },
  });
}

/** A request's body as text, at most `limit` bytes of it. Throws `too_large`. */
export async function readText(request: Request, limit: number, what: string): Promise<string> {
  const bytes = await readAtMost(
    request.body,
    limit,
    () => new SvcError("too_large", `Cannot read the ${what}: it has more than ${limit} bytes`),
  );
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new SvcError("argument_invalid", `Cannot read the ${what}: it is not UTF-8`, { cause });
  }
}
