/** Finds the route of a request, and the version that it speaks. */
import { SvcError } from "../base/errors.ts";
import { invalid, notFound } from "./errors.ts";
import type { ApiRoute } from "./route.ts";
import { checkVersion, MAX_VERSION } from "./versions.ts";

interface Compiled {
  route: ApiRoute;
  form: RegExp;
}

export interface Found {
  route: ApiRoute;
  version: string;
  path: string;
  params: Record<string, string>;
}

const formOf = (path: string) =>
  new RegExp(
    `^${
      path.replaceAll(/\{(\w+)(\*?)\}/g, (_, name, long) => `(?<${name}>${long ? ".+" : "[^/]+"})`)
    }$`,
  );

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalid(`Cannot read the path: ${text} is badly encoded`);
  }
}

export class Router {
  readonly #routes: readonly Compiled[];

  constructor(routes: readonly ApiRoute[]) {
    this.#routes = routes.map((route) => ({ route, form: formOf(route.path) }));
  }

  /** Throws `argument_invalid` for a version that is not spoken, `not_found` where there is no such route. */
  find(method: string, pathname: string): Found {
    const [, prefixed, rest] = /^\/v(\d+\.\d+)(\/.*)$/.exec(pathname) ?? [];
    const version = prefixed ?? MAX_VERSION;
    const path = rest ?? pathname;
    if (prefixed !== undefined) checkVersion(prefixed);
    let other = false;
    for (const { route, form } of this.#routes) {
      const match = form.exec(path);
      if (!match) continue;
      if (route.method !== method) {
        other = true;
        continue;
      }
      const params = Object.fromEntries(
        Object.entries(match.groups ?? {}).map(([name, value]) => [name, decode(value)]),
      );
      return { route, version, path, params };
    }
    if (other) {
      throw new SvcError("method_not_allowed", `Cannot ${method} ${path}: there is no such method`);
    }
    throw notFound("page not found");
  }
}
