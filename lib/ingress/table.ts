/** Maps a host and a path to the deployment that answers. */
import type { IngressRoute } from "../api/ingress.ts";
import { SvcError } from "../base/errors.ts";

/** Routes of one host, the most specific first. */
type Routes = readonly IngressRoute[];

/** A prefix means the same with and without a trailing slash. */
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

/** A deployment's reservation of hosts and paths while it is being applied. */
export interface Claim {
  /** Replaces the deployment's routes with the claimed ones. */
  commit(): void;
  /** Gives up the claim; the deployment keeps its old routes. No effect after `commit`. */
  release(): void;
}

/**
 * The routes of all deployments. A host and path belongs to one deployment: a second one is refused, also while
 * the first is still being applied.
 */
export class IngressTable {
  #routes = new Map<string, Routes>();
  #claims = new Set<Routes>();
  /** Routes by host; rebuilt with each change, as requests are far more frequent. */
  #hosts = new Map<string, Routes>();

  /** Throws `conflict` naming the deployment that has the host and path. */
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

  /** Throws `conflict`; the deployment then keeps its old routes. */
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
   * `host` as from `requestedHost`, `path` without its query. An exact host goes before a wildcard, an exact
   * path before a prefix, a longer path before a shorter one. Paths are compared undecoded: a route only
   * selects a workload and grants no access.
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
