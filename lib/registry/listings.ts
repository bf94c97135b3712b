/** Tag lists and the catalog (distribution specification "Content Discovery"). */
import type { Context, Route } from "../api/route.ts";
import { SvcError } from "../base/errors.ts";
import { pageOfNames } from "../store/name_index.ts";
import { guarded, lookOf, type RegistryOptions, reply, repositoryOf } from "./request.ts";

/** Most names in one answer; the rest is behind its Link. */
const PAGE = 10_000;

interface Page {
  names: readonly string[];
  /** For the Link header, where more follows. */
  link?: string;
}

/** Most entries that `?n=` asks for in one answer. Throws `argument_invalid`. */
export function limitOf(url: URL): number {
  const text = url.searchParams.get("n");
  if (text !== null && !/^\d{1,9}$/.test(text)) {
    throw new SvcError("argument_invalid", `Cannot list: n=${text.slice(0, 40)} is not a number`);
  }
  return Math.min(PAGE, text === null ? PAGE : Number(text));
}

/** One page of names by `?n=` and `?last=`. `n=0` is an empty page, as the specification says. */
async function pageOf(
  url: URL,
  names: (after: string | undefined) => AsyncIterable<string>,
): Promise<Page> {
  const limit = limitOf(url);
  const list = names(url.searchParams.get("last") ?? undefined);
  const page = await pageOfNames(list, limit);
  if (!page.more) return { names: page.names };
  const query = new URLSearchParams({ n: String(limit), last: page.names[limit - 1] });
  return { names: page.names, link: `<${url.pathname}?${query}>; rel="next"` };
}

/** Whole lists as JSON. An entry lives as long as the index hands out the same list. */
const encoded = new WeakMap<readonly string[], string>();

function encode(names: readonly string[]): string {
  let text = encoded.get(names);
  if (text === undefined) encoded.set(names, text = JSON.stringify(names));
  return text;
}

const encoder = new TextEncoder();

/** `head` is the document's text up to its list. */
function answer(head: string, { names, link }: Page): Response {
  const bytes = encoder.encode(`${head}${encode(names)}}`);
  return reply(200, {
    "content-type": "application/json",
    "content-length": String(bytes.length),
    link,
  }, bytes);
}

export function listingRoutes({ reader }: RegistryOptions): Route[] {
  const tags = async (context: Context): Promise<Response> => {
    const { url } = context;
    const name = repositoryOf(context);
    const look = lookOf(context);
    if (!await reader.hasRepository(name, look)) {
      throw new SvcError("name_unknown", `Cannot list tags of ${name}: no such repository`, {
        detail: { name },
      });
    }
    const page = await pageOf(url, (after) => reader.tags(name, { ...look, after }));
    return answer(`{"name":${JSON.stringify(name)},"tags":`, page);
  };

  const catalog = async ({ url, signal }: Context): Promise<Response> => {
    const page = await pageOf(url, (after) => reader.repositories({ signal, after }));
    return answer('{"repositories":', page);
  };

  return [
    {
      method: "GET",
      path: "/v2/_catalog",
      action: "pull",
      help: "Repositories in byte order; ?n= and ?last= page through them.",
      handler: guarded(catalog),
    },
    {
      method: "GET",
      path: "/v2/{name+}/tags/list",
      action: "pull",
      help: "Tags of a repository in byte order; ?n= and ?last= page through them.",
      handler: guarded(tags),
    },
  ];
}
