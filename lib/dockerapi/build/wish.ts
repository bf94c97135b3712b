/** What a build of docker's clients asks for, whichever of its protocols said it, as the query of svc's own build. */
import { invalid, unsupported } from "../errors.ts";
import type { ImageAccess } from "../images/access.ts";
import { storedName, UNNAMED } from "../images/names.ts";

export interface BuildWish {
  /** Docker's names of the image. */
  names: readonly string[];
  /** Path of the Dockerfile within its folder or archive. */
  dockerfile: string;
  target?: string;
  platform?: string;
  buildArgs: Readonly<Record<string, string>>;
  labels: Readonly<Record<string, string>>;
  noCache: boolean;
  pull: boolean;
  /** Docker's words: "default", "bridge", "none", "host", a network's name. */
  network?: string;
  /** "name:address". */
  addHosts: readonly string[];
  /** In buildx's form: "type=registry,ref=…". */
  cacheFrom: readonly string[];
  cacheTo: readonly string[];
  attest: readonly string[];
  /** Contexts that are images, URLs or repositories. */
  contexts: Readonly<Record<string, string>>;
  /** A context that the server fetches. */
  remote?: string;
  /** In the form of svc's own parameter; none: the image goes into the server's registry. */
  outputs: readonly string[];
}

export const NO_WISH: BuildWish = {
  ...{ names: [], dockerfile: "Dockerfile", buildArgs: {}, labels: {} },
  ...{ noCache: false, pull: false, addHosts: [], cacheFrom: [], cacheTo: [], attest: [] },
  ...{ contexts: {}, outputs: [] },
};

/** Refuses a part of a build by its name. */
export const cannotBuild = (what: string, help = "leave it out") =>
  unsupported(`svc cannot build with ${what}`, help);

function networkOf(network: string | undefined): string | undefined {
  if (network === undefined || ["", "default", "bridge"].includes(network)) return undefined;
  if (network === "none") return network;
  if (network === "host") {
    throw cannotBuild("the host's network", "svc build --allow network.host --network host may");
  }
  throw cannotBuild(`the network ${network}`, "use none or default");
}

/** The name within the server's registry, whatever registry it names: a build pushes nowhere. */
function tagOf(name: string, { own, pullHost }: Pick<ImageAccess, "own" | "pullHost">): string {
  const { repository, tag, digest } = storedName(name, own);
  if (digest !== undefined) {
    throw invalid(`invalid tag ${JSON.stringify(name)}: it has a digest`);
  }
  return `${pullHost}/${repository}:${tag}`;
}

/** The query of `POST /build`. Throws what cannot be honoured, by name. */
export function queryOf(
  wish: BuildWish,
  access: Pick<ImageAccess, "own" | "pullHost">,
): URLSearchParams {
  const query = new URLSearchParams();
  const put = (key: string, values: readonly string[]) => {
    for (const value of values) query.append(key, value);
  };
  const pairs = (record: Readonly<Record<string, string>>) =>
    Object.entries(record).map(([key, value]) => `${key}=${value}`);
  const names = wish.names.map((name) => tagOf(name, access));
  // An image without a name is kept under one that docker's lists do not show.
  const unnamed = names.length === 0 && wish.outputs.length === 0;
  put("t", unnamed ? [`${access.pullHost}/${UNNAMED}:${crypto.randomUUID()}`] : names);
  query.set("dockerfile", wish.dockerfile);
  if (wish.target) query.set("target", wish.target);
  if (wish.platform) query.set("platform", wish.platform);
  if (wish.noCache) query.set("nocache", "true");
  if (wish.pull) query.set("pull", "true");
  const network = networkOf(wish.network);
  if (network) query.set("network", network);
  put("buildarg", pairs(wish.buildArgs));
  put("label", pairs(wish.labels));
  put("addhost", wish.addHosts);
  put("cachefrom", wish.cacheFrom);
  put("cacheto", wish.cacheTo);
  put("attest", wish.attest);
  put("buildcontext", pairs(wish.contexts));
  put("output", wish.outputs);
  if (wish.remote) query.set("remote", wish.remote);
  return query;
}
