/** Which deployment answers a host and a path. */
import type { IngressRoute } from "../api/ingress.ts";
import { SvcError } from "../base/errors.ts";

/** Routes of one host, the more particular ones first. */
type Routes = readonly IngressRoute[];

/** A trailing slash says nothing about a prefix. */
const prefixOf = (path: string) => path.endsWith("/") ? path.slice(0, -1) : path;

const keyOf = ({ host, path, pathType }: IngressRoute) =>
  `${host} ${pathType} ${pathType === "Exact" ? path : prefixOf(path)}`;

function matches({ path, pathType }: IngressRoute, asked: string): boolean {
  if (pathType === "Exact") return asked === path;
  const prefix = prefixOf(path);
  return asked.startsWith(prefix) &&
    (asked.length === prefix.length || asked[prefix.length] === "/");
}

/** Exact before prefix, longer before shorter. */
function compare(a: IngressRoute, b: IngressRoute): number {
  if (a.pathType !== b.pathType) return a.pathType === "Exact" ? -1 : 1;
  return prefixOf(b.path).length - prefixOf(a.path).length;
}

/** A deployment's claim on hosts and paths while it is being applied. */
export interface Claim {
  /** The routes are the deployment's from now on, in place of those it had. */
  commit(): void;
  /** The deployment keeps what it had. Nothing after `commit`. */
  release(): void;
}

/**
 * The routes of all deployments. A host and path belongs to one deployment: whoever asks second is refused,
 * also while the first is still being applied.
 */
export class IngressTable {
  #routes = new Map<string, Routes>();
  #claims = new Set<Routes>();
  /** By host, made anew with each change: there are far more requests than changes. */
  #hosts = new Map<string, Routes>();

  /** Throws `conflict` naming who has the host and path. */
  claim(deployment: string, routes: Routes): Claim {
    this.#requireFree(deployment, routes);
    this.#claims.add(routes);
    const release = () => void this.#claims.delete(routes);
    return {
      commit: () => {
        if (!this.#claims.has(routes)) return;
        release();
        this.#put(deployment, routes);
      },
      release,
    };
  }

  /** Throws `conflict`; the deployment then keeps what it had. */
  set(deployment: string, routes: Routes): void {
    this.claim(deployment, routes).commit();
  }

  delete(deployment: string): void {
    if (this.#routes.delete(deployment)) this.#index();
  }

  of(deployment: string): Routes {
    return this.#routes.get(deployment) ?? [];
  }

  /** Every route, in no order. */
  all(): IngressRoute[] {
    return [...this.#routes.values()].flat();
  }

  /**
   * `host` as `requestedHost` gives it, `path` without its query. An exact host beats a wildcard, an exact
   * path a prefix, a longer path a shorter one. Paths are compared as they are sent: a route decides who is
   * asked, never who may ask.
   */
  match(host: string, path: string): IngressRoute | undefined {
    const dot = host.indexOf(".");
    return this.#find(host, path) ??
      (dot > 0 ? this.#find(`*${host.slice(dot)}`, path) : undefined);
  }

  #find(host: string, path: string): IngressRoute | undefined {
    return this.#hosts.get(host)?.find((route) => matches(route, path));
  }

  #requireFree(deployment: string, routes: Routes): void {
    const wanted = new Map(routes.map((route) => [keyOf(route), route]));
    for (const route of [...this.all(), ...[...this.#claims].flat()]) {
      if (route.deployment === deployment || !wanted.has(keyOf(route))) continue;
      throw new SvcError(
        "conflict",
        `Cannot deploy ${deployment}: ingress host ${route.host}, path ${route.path}, belongs to ` +
          `deployment ${route.deployment}`,
        { help: "choose another host or path, or remove that deployment first" },
      );
    }
  }

  #put(deployment: string, routes: Routes): void {
    if (routes.length === 0 && !this.#routes.has(deployment)) return;
    if (routes.length === 0) this.#routes.delete(deployment);
    else this.#routes.set(deployment, routes);
    this.#index();
  }

  #index(): void {
    const all = this.all().sort(compare);
    this.#hosts = new Map(
      Map.groupBy(all, ({ host }) => host),
    );
  }
}
