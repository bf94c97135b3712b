/**
 * The graph of a build: vertices are file system states and what makes them. A vertex holds everything
 * its result depends on, already expanded; `lib/build/solve` turns it into a cache key and runs it.
 */
import type { ResolvedImage } from "../../oci/resolver.ts";
import type { ContainerConfig, HistoryEntry, Platform } from "../../oci/types.ts";
import type { Entitlement } from "../../api/build_entitlements.ts";
import type { OpenTree } from "../inputs.ts";
import type { Mount } from "../parse/ast.ts";

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

/** Something that a build took from outside, in the terms of SLSA's resource descriptors. */
export interface Material {
  /** Without user name and password. */
  uri: string;
  /** Hexadecimal digest by algorithm; "sha1" for a git commit. */
  digest: Record<string, string>;
}

/** Files from outside: a URL, a git repository, a named context. */
export interface TreeSource {
  /**
   * A name for the content, found without fetching all of it (a checksum, a commit); undefined where there is
   * none. Equal names mean equal content for ever.
   */
  identity(tools: TreeTools): Promise<string | undefined>;
  /** Fetches the tree. Called at most once in a build, and only where the cache has no result. */
  open(tools: TreeTools): Promise<OpenTree>;
  /**
   * Where the tree came from; undefined until `identity` or `open` has resolved. Absent: it came from the
   * caller.
   */
  material?(): Material | undefined;
}

/** Tools of the engine for a {@linkcode TreeSource}. */
export interface TreeTools {
  /** A new folder; disposing removes it. */
  temporary(): Promise<{ path: string } & AsyncDisposable>;
  /** Small notes that outlive the build and may get lost, such as HTTP validators. */
  notes: {
    get(key: string): Promise<string | undefined>;
    put(key: string, note: string): Promise<void>;
  };
  /** An SSH agent's socket for the programs that fetch; undefined where the caller offers none. */
  agent?: () => Promise<{ path: string } & AsyncDisposable>;
  onProgress(label: string, current: number, total?: number): void;
  /** Most bytes of one download, and of one archive unpacked. */
  maxBytes?: number;
  maxUnpackedBytes?: number;
  /** True: fetches may not connect to addresses that lead back to this host. */
  checked?: boolean;
  signal: AbortSignal;
}

export interface TreeVertex extends VertexBase {
  kind: "tree";
  tree: TreeSource;
}

/** A file whose content is in the Dockerfile (a heredoc). */
export interface InlineFile {
  name: string;
  data: string;
}

/** What an instruction copies from one source. */
export interface CopyPart {
  from: Source;
  /** For messages: the name in `--from`, or the URL; absent: the context. */
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
  /**
   * "user[:group]", looked up in the destination's passwd; absent: the source's owner (0:0 from the context).
   */
  chown?: string;
  /** Octal or symbolic. */
  chmod?: string;
  /** Source paths keep their folders. */
  parents: boolean;
  exclude: string[];
  /**
   * Copies as if into an empty root that is then laid over the base: links of the base are not followed, and
   * folders above the destination are made anew by the COPY.
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
    /** Owner of the cache mount; absent: all callers share it. */
    owner?: string;
    /** Initial content of an empty cache. */
    from: Source;
    source: string;
    target: string;
    sharing: "shared" | "private" | "locked";
    readOnly: boolean;
    mode: number;
    uid: number;
    gid: number;
  }
  | Extract<Mount, { type: "tmpfs" | "secret" }>
  | Extract<Mount, { type: "ssh" }> & { target: string };

/** Mounts that show files of another source. */
export type SourceMount = Extract<RunMount, { from: Source }>;

export const hasSource = (mount: RunMount): mount is SourceMount => "from" in mount;

export interface RunVertex extends VertexBase {
  kind: "run";
  base: Source;
  args: string[];
  /** A heredoc that begins with #!: the step runs it as a file in {@linkcode SCRIPT_FOLDER}. */
  script?: InlineFile;
  /** `NAME=value`: the image's variables, and the build arguments that the step sees. */
  env: string[];
  /** Variables that the step sees but that are not part of its key: proxies. */
  hiddenEnv: string[];
  workingDir: string;
  user: string;
  network: "default" | "none" | "host";
  /** Entitlements that the step needs; the request must ask for them and the server permit them. */
  needs: Entitlement[];
  /** Devices by their names in CDI files; a device that is not required may be missing. */
  devices: { name: string; required: boolean }[];
  /** Names and addresses for /etc/hosts. */
  hosts: { name: string; address: string }[];
  mounts: RunMount[];
  platform: Platform;
}

/** Folder of a script from a heredoc, in the step. */
export const SCRIPT_FOLDER = "/dev/pipes";

/** A vertex that this machine executes on top of another file system. */
export type StepVertex = CopyVertex | WorkdirVertex | RunVertex;

export type Vertex = ImageVertex | TreeVertex | StepVertex;

/** One line of the image's history; `vertex` absent: no layer. */
export interface PlannedHistory {
  entry: Omit<HistoryEntry, "created" | "empty_layer">;
  vertex?: Vertex;
}

export interface BuildPlan {
  /** Inputs come before the vertices that need them. */
  vertices: Vertex[];
  /** File system of the target stage. */
  root: Source;
  platform: Platform;
  /** Base image of the target's file system; absent: scratch. */
  base?: ResolvedImage;
  config: ContainerConfig;
  author?: string;
  /** History after the base image's own. */
  history: PlannedHistory[];
  /**
   * Latest time in the image's layers, and the time of its documents, in seconds since 1970:
   * SOURCE_DATE_EPOCH as a build argument, or the value that a reproducible build uses instead.
   */
  epoch?: number;
  warnings: { message: string; line?: number; rule?: string }[];
}

const isVertex = (source: Source): source is Vertex => typeof source !== "string";

/** True for a vertex that this machine executes; these are the counted steps. */
export const isStep = (vertex: Vertex): vertex is StepVertex =>
  vertex.kind !== "image" && vertex.kind !== "tree";

export const isTree = (source: Source): source is TreeVertex =>
  isVertex(source) && source.kind === "tree";

/** Vertices that must be solved before `vertex` runs, in the order of its definition. */
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

/** All vertices that `root` needs, inputs first, each once. */
export function closure(root: Source): Vertex[] {
  const found = new Set<Vertex>();
  // Without recursion: a graph may be deeper than the call stack.
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
