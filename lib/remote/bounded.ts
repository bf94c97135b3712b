/** Reads answers of registries with a limit, since a registry may be hostile. */
import { SvcError } from "../base/errors.ts";

/** A body of at most `limit` bytes. Throws `upstream_failed` as soon as more bytes come. */
export async function readBounded(
  response: Response,
  limit: number,
  tooLong: () => SvcError,
): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    // Leaving the loop closes the connection.
    if (size > limit) throw tooLong();
    parts.push(chunk);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** A JSON object of at most `limit` bytes. Throws `upstream_failed`. */
export async function readObject(
  response: Response,
  limit: number,
  attempted: string,
): Promise<Record<string, unknown>> {
  const failed = (why: string, cause?: unknown) =>
    new SvcError("upstream_failed", `${attempted}: ${why}`, { cause });
  const bytes = await readBounded(
    response,
    limit,
    () => failed(`the answer has more than ${limit} bytes`),
  );
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw failed("the answer is not JSON", error);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw failed("the answer is not a JSON object");
  }
  return value as Record<string, unknown>;
}
