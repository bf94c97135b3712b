/** The attributes that buildx and docker give BuildKit's Dockerfile frontend (docs of frontend/dockerfile). */
import { type BuildWish, cannotBuild, NO_WISH } from "../build/wish.ts";
import type { CacheEntry } from "./control_api.ts";

type Attributes = Readonly<Record<string, string>>;

/** What a build reads of its client by the client's own names. */
export interface Asked {
  wish: BuildWish;
  /** The context's archive on the client's standard input: its path there. */
  upload?: string;
  /** Folders of the client: by the name of the build context, the client's own name of it. */
  folders: ReadonlyMap<string, string>;
}

const UPLOAD = "http://buildkit-session/";

/** Attributes that say nothing that svc does not do anyway. */
const NEUTRAL = new Set([
  ...["multi-platform", "frontend.caps", "source", "cmdline", "contextkey", "dockerfilekey"],
  ...["image-resolve-mode", "filename", "target", "platform", "no-cache", "force-network-mode"],
  ...["add-hosts", "context", "cache-imports", "cache-from", "build-arg:BUILDKIT_SYNTAX"],
]);

const PREFIXES = ["build-arg:", "label:", "context:", "attest:", "vcs:", "local-sessionid:"];

/** Harmless defaults of what is otherwise refused. */
const REFUSED: Record<string, readonly string[]> = {
  "cgroup-parent": [""],
  "shm-size": ["", "0"],
  "ulimit": [""],
  "hostname": [""],
};

function withPrefix(attributes: Attributes, prefix: string): Record<string, string> {
  const found = Object.entries(attributes).filter(([key]) => key.startsWith(prefix));
  return Object.fromEntries(found.map(([key, value]) => [key.slice(prefix.length), value]));
}

/** Fields of a comma-separated value. */
const fieldsOf = (text: string) =>
  new Map(
    text.split(",").map((field) => {
      const at = field.indexOf("=");
      return at < 0 ? [field, "true"] : [field.slice(0, at), field.slice(at + 1)];
    }),
  );

/** Attestations that would become part of the image. */
function attestOf(attributes: Attributes): string[] {
  return Object.entries(withPrefix(attributes, "attest:")).flatMap(([type, text]) => {
    const fields = fieldsOf(text);
    if (fields.get("disabled") === "true" || fields.get("inline-only") === "true") return [];
    const rest = [...fields].filter(([key]) => key !== "disabled" && key !== "true" && key !== "");
    return [[`type=${type}`, ...rest.map((pair) => pair.join("="))].join(",")];
  });
}

function refuseUnknown(attributes: Attributes): void {
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "requestid") throw cannotBuild(`--call=${value.replace(/^frontend\./, "")}`);
    if (NEUTRAL.has(key) || PREFIXES.some((prefix) => key.startsWith(prefix))) continue;
    if (REFUSED[key]?.includes(value)) continue;
    throw cannotBuild(`${key}=${value}`);
  }
  const stages = attributes["no-cache"];
  if (stages) throw cannotBuild(`--no-cache-filter=${stages}`, "use --no-cache");
}

/** "name=address", as buildx has them, several in one. */
const hostsOf = (text: string | undefined) =>
  (text ?? "").split(",").filter(Boolean).map((host) => host.replace("=", ":"));

interface Contexts {
  contexts: Record<string, string>;
  folders: Map<string, string>;
}

function contextsOf(attributes: Attributes): Contexts {
  const contexts: Record<string, string> = {};
  const folders = new Map<string, string>();
  for (const [name, value] of Object.entries(withPrefix(attributes, "context:"))) {
    if (value.startsWith("local:")) folders.set(name, value.slice("local:".length));
    else if (/^(docker-image|https?|git|ssh):\/\/|^git@/.test(value)) contexts[name] = value;
    else throw cannotBuild(`the context ${name}=${value}`);
  }
  return { contexts, folders };
}

const csv = ({ type, attrs }: CacheEntry) =>
  [`type=${type}`, ...Object.entries(attrs).map((pair) => pair.join("="))].join(",");

/** Caches that are images; the client's own folders of them would come by its content store. */
function cachesOf(entries: readonly CacheEntry[] = []): string[] {
  for (const entry of entries) {
    if (!["registry", "inline"].includes(entry.type)) throw cannotBuild(`the cache ${csv(entry)}`);
  }
  return entries.map(csv);
}

/** Throws what cannot be honoured, by name. */
export function asked(
  attributes: Attributes,
  { imports, exports, names }: {
    imports?: readonly CacheEntry[];
    exports?: readonly CacheEntry[];
    names: readonly string[];
  },
): Asked {
  refuseUnknown(attributes);
  const { contexts, folders } = contextsOf(attributes);
  const context = attributes.context;
  const upload = context?.startsWith(UPLOAD) ? context.slice(UPLOAD.length - 1) : undefined;
  const buildArgs = withPrefix(attributes, "build-arg:");
  delete buildArgs.BUILDKIT_SYNTAX;
  return {
    wish: {
      ...NO_WISH,
      names,
      dockerfile: attributes.filename || "Dockerfile",
      target: attributes.target,
      platform: attributes.platform,
      buildArgs,
      labels: withPrefix(attributes, "label:"),
      noCache: attributes["no-cache"] !== undefined,
      pull: attributes["image-resolve-mode"] === "pull",
      network: attributes["force-network-mode"],
      addHosts: hostsOf(attributes["add-hosts"]),
      cacheFrom: cachesOf(imports?.filter(({ type }) => type !== "inline")),
      cacheTo: cachesOf(exports),
      attest: attestOf(attributes),
      contexts,
      ...context && !upload && { remote: context },
    },
    ...upload && { upload },
    folders,
  };
}
