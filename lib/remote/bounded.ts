/** Reads answers of registries with a limit, since a registry may be hostile. */
import { readAtMost } from "../base/collect.ts";
import { SvcError } from "../base/errors.ts";

/** A JSON object of at most `limit` bytes. Throws `upstream_failed`. */
export async function readObject(
  response: Response,
  limit: number,
  attempted: string,
): Promise<Record<string, unknown>> {
  const failed = (why: string, cause?: unknown) =>
    new SvcError("upstream_failed", `${attempted}: ${why}`, { cause });
  const bytes = await readAtMost(
    response.body,
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
