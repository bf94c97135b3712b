/**
 * The graph of a build: vertices are file system states and what makes them. A vertex holds everything
 * its result depends on, already expanded; `lib/build/solve` turns it into a cache key and runs it.
 */
import type { ResolvedImage } from "../../oci/resolver.ts";
import type { ContainerConfig, HistoryEntry, Platform } from "../../oci/types.ts";
import type { Entitlement } from "../../api/build_entitlements.ts";
import type { OpenTree } from "../inputs.ts";

/** A file system: a vertex's result, the build context, or nothing at all (`FROM scratch`). */
export type Source = Vertex | "context" | "scratch";

interface VertexBase {
  /** Unique within the build. */
  id: string;
  /** For a person: `[build 2/5] RUN make`. */
  name: string;
  /** The stage's name, or its number. */
  stage?: string;
  /** First line of the instruction. */
  line?: number;
  /** The instruction as written, on one line; what an error names. */
  text: string;
}

export interface ImageVertex extends VertexBase {
  kind: "image";
  image: ResolvedImage;
}

/** What a build took from outside, as SLSA's resource descriptors name it. */
export interface Material {
  /** Without user name and password. */
  uri: string;
  /** Hexadecimal by algorithm; "sha1" of a git commit. */
  digest: Record<string, string>;
}

/** Files from outside: a URL, a git repository, a named context. */
export interface TreeSource {
  /**
   * Names the content without fetching all of it (a checksum, a commit); undefined where that is not
   * known. Equal names are equal content, for ever.
   */
  identity(tools: TreeTools): Promise<string | undefined>;
  /** Fetches it. Called once in a build, and only where the cache does not do. */
  open(tools: TreeTools): Promise<OpenTree>;
  /** Where it came from; undefined until `identity` or `open` has answered. Absent: from the caller. */
  material?(): Material | undefined;
}

/** What the engine lends a {@linkcode TreeSource}. */
export interface TreeTools {
  /** A new folder; disposing removes it. */
  temporary(): Promise<{ path: string } & AsyncDisposable>;
  /** Small notes that outlive the build and may be lost: validators of HTTP. */
  notes: {
    get(key: string): Promise<string | undefined>;
    put(key: string, note: string): Promise<void>;
  };
  /** An SSH agent's socket for the programs that fetch; undefined where the caller offers none. */
  agent?: () => Promise<{ path: string } & AsyncDisposable>;
  onProgress(label: string, current: number, total?: number): void;
  /** Bytes of one download, at most, and of what one archive unpacks to. */
  maxBytes?: number;
  maxUnpackedBytes?: number;
  /** What is fetched comes from addresses that do not lead back to this host. */
  checked?: boolean;
  signal: AbortSignal;
}

export interface TreeVertex extends VertexBase {
  kind: "tree";
  tree: TreeSource;
}

/** A file whose content stands in the Dockerfile (heredoc). */
export interface InlineFile {
  name: string;
  data: string;
}

/** What an instruction takes from one place. */
export interface CopyPart {
  from: Source;
  /** What `--from` names, or the URL, for messages; absent: the context. */
  fromName?: string;
  /** Paths or patterns inside `from`, relative to its root. */
  sources: string[];
  /** Archives are unpacked (ADD). */
  unpack: boolean;
}

export interface CopyVertex extends VertexBase {
  kind: "copy";
  instruction: "COPY" | "ADD";
  base: Source;
  parts: CopyPart[];
  inline: InlineFile[];
  /** Absolute; ends in "/" where it has to be a folder. */
  destination: string;
  /** "user[:group]" against the destination's passwd; absent: as in the source (0:0 from the context). */
  chown?: string;
  /** Octal or symbolic. */
  chmod?: string;
  /** Source paths keep their folders. */
  parents: boolean;
  exclude: string[];
  /**
   * As if copied into an empty root that is then laid over the base: links of the base are not followed,
   * and folders on the way are as COPY makes them.
   */
  link: boolean;
}

export interface WorkdirVertex extends VertexBase {
  kind: "workdir";
  base: Source;
  path: string;
  /** Owner of the folders made. */
  user: string;
}

export type RunMount =
  | { type: "bind"; from: Source; source: string; target: string; writable: boolean }
  | {
    type: "cache";
    id: string;
    /** Whose it is; absent: everybody's. */
    owner?: string;
    /** What an empty cache begins with. */
    from: Source;
    source: string;
    target: string;
    sharing: "shared" | "private" | "locked";
    readOnly: boolean;
    mode: number;
    uid: number;
    gid: number;
  }
  | { type: "tmpfs"; target: string; size?: number }
  | {
    type: "secret";
    id: string;
    /** Path of the file; absent: it goes into `env` alone. */
    target?: string;
    env?: string;
    required: boolean;
    mode: number;
    uid: number;
    gid: number;
  }
  | {
    type: "ssh";
    id: string;
    /** Path of the agent's socket. */
    target: string;
    required: boolean;
    mode: number;
    uid: number;
    gid: number;
  };

/** Mounts that show files of another place. */
export type SourceMount = Extract<RunMount, { from: Source }>;

export const hasSource = (mount: RunMount): mount is SourceMount => "from" in mount;

export interface RunVertex extends VertexBase {
  kind: "run";
  base: Source;
  args: string[];
  /** A file that the step runs (a heredoc that begins with #!), at {@linkcode SCRIPT_FOLDER}. */
  script?: InlineFile;
  /** `NAME=value`: the image's and the build arguments the step sees. */
  env: string[];
  /** Seen by the step but no part of its key: proxies. */
  hiddenEnv: string[];
  workingDir: string;
  user: string;
  network: "default" | "none" | "host";
  /** More rights than a step has as a rule; asked of the request and of the server. */
  needs: Entitlement[];
  /** Devices by the names that CDI files give them; what is not required may be missing. */
  devices: { name: string; required: boolean }[];
  /** Names and addresses for /etc/hosts. */
  hosts: { name: string; address: string }[];
  mounts: RunMount[];
  platform: Platform;
}

/** Where a step finds the script that is its heredoc. */
export const SCRIPT_FOLDER = "/dev/pipes";

/** What this machine carries out on top of another file system. */
export type StepVertex = CopyVertex | WorkdirVertex | RunVertex;

export type Vertex = ImageVertex | TreeVertex | StepVertex;

/** One line of the image's history; `vertex` absent: no layer. */
export interface PlannedHistory {
  entry: Omit<HistoryEntry, "created" | "empty_layer">;
  vertex?: Vertex;
}

export interface BuildPlan {
  /** Inputs before what needs them. */
  vertices: Vertex[];
  /** The target's file system. */
  root: Source;
  platform: Platform;
  /** The image that the target's chain stands on; absent: scratch. */
  base?: ResolvedImage;
  config: ContainerConfig;
  author?: string;
  /** What comes after the base image's own history. */
  history: PlannedHistory[];
  /**
   * Seconds since 1970: the latest time in the image's layers, and that of its documents. SOURCE_DATE_EPOCH
   * as a build argument, or what a reproducible build has in its place.
   */
  epoch?: number;
  warnings: { message: string; line?: number; rule?: string }[];
}

const isVertex = (source: Source): source is Vertex => typeof source !== "string";

/** True for what is done on this machine: a step of those that are counted. */
export const isStep = (vertex: Vertex): vertex is StepVertex =>
  vertex.kind !== "image" && vertex.kind !== "tree";

export const isTree = (source: Source): source is TreeVertex =>
  isVertex(source) && source.kind === "tree";

/** What must exist before a vertex can run, in the order of its definition. */
export function inputs(vertex: Vertex): Vertex[] {
  switch (vertex.kind) {
    case "image":
    case "tree":
      return [];
    case "workdir":
      return [vertex.base].filter(isVertex);
    case "copy":
      return [vertex.base, ...vertex.parts.map((part) => part.from)].filter(isVertex);
    case "run":
      return [
        vertex.base,
        ...vertex.mounts.filter(hasSource).map((mount) => mount.from),
      ].filter(isVertex);
  }
}

/** The vertices whose layers make up `source`, base image first. */
export function chain(source: Source): Vertex[] {
  const found: Vertex[] = [];
  for (let at = source; isVertex(at);) {
    found.push(at);
    if (at.kind === "image" || at.kind === "tree") break;
    at = at.base;
  }
  return found.reverse();
}

/** Everything `root` needs, inputs first, each once. */
export function closure(root: Source): Vertex[] {
  const found = new Set<Vertex>();
  // By hand: a graph may be deeper than calls can be.
  const open: { vertex: Vertex; left: Vertex[] }[] = [];
  const visit = (vertex: Vertex) => {
    if (!found.has(vertex)) open.push({ vertex, left: inputs(vertex).reverse() });
  };
  if (isVertex(root)) visit(root);
  for (let at = open.at(-1); at; at = open.at(-1)) {
    const next = at.left.pop();
    if (next) visit(next);
    else found.add(open.pop()!.vertex);
  }
  return [...found];
}
