/** Reads a registry's listings page by page. */
import { SvcError } from "../base/errors.ts";
import { readObject } from "./bounded.ts";
import { refusal, type Transport } from "./transport.ts";

/** Most pages of one listing, for a registry that names next pages without end. */
const MAX_PAGES = 10_000;

/** Largest page, in bytes: some registries send all tags in one page. */
const MAX_PAGE_BYTES = 32 * 1024 * 1024;
/** The URL of the Link header's `rel="next"` (RFC 8288). */
function nextPage(link: string | null, from: URL): URL | undefined {
  for (const [, target, parameters] of (link ?? "").matchAll(/<([^>]*)>([^,]*)/g)) {
    if (/;\s*rel="?next"?/i.test(parameters) && URL.canParse(target, from)) {
      return new URL(target, from);
    }
  }
  return undefined;
}

/** The pages of a listing, in order; a 404 ends the listing. */
export async function* pages(
  transport: Transport,
  first: string,
  scope: string,
  signal?: AbortSignal,
): AsyncGenerator<{ body: Record<string, unknown>; missing: false } | { missing: true }> {
  let url: URL | undefined = new URL(first, transport.base);
  const seen = new Set<string>();
  while (url) {
    if (seen.has(url.href) || seen.size === MAX_PAGES) {
      throw new SvcError(
        "upstream_failed",
        `Cannot list from ${transport.host}: its pages have no end`,
      );
    }
    seen.add(url.href);
    const response: Response = await transport.request(url, { scope, signal });
    if (response.status === 404) {
      await response.body?.cancel();
      return yield { missing: true };
    }
    if (response.status !== 200) {
      throw await refusal(`Cannot list from ${transport.host}`, transport.host, response);
    }
    const next = nextPage(response.headers.get("link"), url);
    const body = await readObject(response, MAX_PAGE_BYTES, `Cannot list from ${transport.host}`)
      .catch((error) => Promise.reject(transport.failure(error)));
    yield { body, missing: false };
    if (next && next.origin !== transport.base.origin) {
      throw new SvcError(
        "upstream_failed",
        `Cannot list from ${transport.host}: its next page is at another server, ${next.origin}`,
      );
    }
    url = next;
  }
}
