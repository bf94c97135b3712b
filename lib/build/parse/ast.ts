/**
 * The syntax tree of a Dockerfile, as `parseDockerfile(text, options?)` in `parse.ts` makes it. Nothing in it
 * is expanded: a {@linkcode Word} keeps its quotes, escapes and variables, and `expand(word, scope)` in
 * `expand.ts` gives its value once the scope is known.
 */

/** Options of `parseDockerfile`. */
export interface ParseOptions {
  /** The file's name, for messages and `detail.file`; default "Dockerfile". */
  file?: string;
  /** Facts from outside the text that warnings depend on. */
  known?: KnownFacts;
  /** Called with the number of the line that parsing has reached. */
  onLine?: (line: number) => void;
}

/** Facts that only a planned build has. */
export interface KnownFacts {
  /** By stage index: names of the variables that are set where the stage begins. */
  environments: ReadonlyMap<number, Iterable<string>>;
  /** Warnings of rules that the text alone does not decide. */
  found: { rule: "CopyIgnoredFile" | "InvalidBaseImagePlatform"; line: number; message: string }[];
}

/**
 * One word of the source. `raw` has quotes and escapes as written; from the JSON form it is the decoded
 * string, which docker expands by the same rules. Words of instructions that are never expanded are plain
 * strings instead.
 */
export interface Word {
  raw: string;
  /** Line of the instruction's first line, from 1. */
  line: number;
}

/** An inline file: `<<EOF` and the lines up to its terminator. */
export interface Heredoc {
  /** The terminator, and the file's name where COPY and ADD make it a source. */
  name: string;
  /**
   * The content as written, with the last newline; for `<<-` too the tabs are kept (see {@linkcode
   * heredocText}).
   */
  content: string;
  /** False where the terminator was quoted: variables stay as they are. */
  expand: boolean;
  /** `<<-`: leading tabs of every line are to be removed. */
  stripTabs: boolean;
  /** Descriptor number as in `3<<EOF`; default 0. Only a shell uses it. */
  fd: number;
  /** First line of the content, from 1. */
  line: number;
}

/** The content as a reader sees it: `<<-` has its leading tabs removed. Variables are as written. */
export function heredocText(heredoc: Heredoc): string {
  return heredoc.stripTabs ? heredoc.content.replace(/^\t+/gm, "") : heredoc.content;
}

/** A command line: exec form (`["a", "b"]`) or shell form, to be run by the stage's SHELL. */
export type Command =
  | { form: "exec"; args: string[] }
  | { form: "shell"; text: string };

interface Base {
  /** First and last line, from 1; heredocs count. */
  line: number;
  endLine: number;
  /** The instruction as written: lines joined by "\n", comments and heredoc bodies included. */
  raw: string;
  /** The form for progress and history: keyword in capitals, continuation lines joined by one space. */
  text: string;
  heredocs: Heredoc[];
}

export interface FromInstruction extends Base {
  kind: "from";
  /** Image or earlier stage; expanded with the global ARGs only. */
  image: Word;
  /** As written; compare it in lower case. */
  as?: string;
  platform?: Word;
}

export interface RunInstruction extends Base {
  kind: "run";
  /**
   * In shell form, `text` is all that the shell gets. For a line with heredocs, it includes their bodies and
   * terminators. Where {@linkcode script} is present, `text` is the script.
   */
  command: Command;
  /** `RUN <<EOF` and nothing else. A script that starts with `#!` is run as a file, not by the shell. */
  script?: Heredoc;
  mounts: MountFlag[];
  network: "default" | "none" | "host";
  security: "sandbox" | "insecure";
  devices: string[];
}

export const MOUNT_TYPES = ["bind", "cache", "tmpfs", "secret", "ssh"] as const;
export type MountType = typeof MOUNT_TYPES[number];

/**
 * One `RUN --mount=…`, its options unexpanded. `resolveMount(mount, expandWord)` in `mounts.ts` gives the typed
 * and checked {@linkcode Mount}. A mount without variables was checked while parsing.
 */
export interface MountFlag {
  /** The flag's value as written. */
  raw: string;
  line: number;
  /** "bind" where absent in the text; undefined where the type has to be expanded first. */
  type?: MountType;
  /** Stage, image or build context; docker allows no variable in it. */
  from?: string;
  /** Names as written, in lower case; `ro`, `rw` and `required` may have no value. */
  options: { name: string; value?: Word }[];
}

/**
 * A mount with its options checked. For bind, cache and tmpfs, a relative `target` is below WORKDIR; default
 * ".".
 */
export type Mount =
  | {
    type: "bind";
    from?: string;
    /** Path within `from` or the context; default "/". */
    source: string;
    target: string;
    /** Default true; what a step writes to a writable mount is thrown away. */
    readOnly: boolean;
  }
  | {
    type: "cache";
    /** Default: the target as written, cleaned. */
    id: string;
    target: string;
    readOnly: boolean;
    sharing: "shared" | "private" | "locked";
    /** Initial content of a new cache: a folder of a stage or image; default an empty folder. */
    from?: string;
    source: string;
    /** Default 0o755. */
    mode: number;
    uid: number;
    gid: number;
  }
  | {
    type: "tmpfs";
    target: string;
    /** Bytes. */
    size?: number;
  }
  | {
    type: "secret";
    /** Default: last part of the target. */
    id: string;
    /** Path of the file; absent: the secret is only in the variable `env`. */
    target?: string;
    /** Name of the environment variable that gets the value. */
    env?: string;
    required: boolean;
    /** Default 0o400. */
    mode: number;
    uid: number;
    gid: number;
  }
  | {
    type: "ssh";
    /** Default "default". */
    id: string;
    /** Path of the agent's socket; absent: the engine chooses (`/run/buildkit/ssh_agent.N`). */
    target?: string;
    required: boolean;
    /** Default 0o600. */
    mode: number;
    uid: number;
    gid: number;
  };

interface Transfer extends Base {
  /** Paths, wildcards, and for ADD URLs; heredoc sources are in `files`. */
  sources: Word[];
  /** Inline files, named by their terminator. Expand the content where `expand` is set. */
  files: Heredoc[];
  destination: Word;
  chown?: Word;
  chmod?: Word;
  link: boolean;
  /** Patterns with `**`, matched below each source. */
  exclude: Word[];
}

export interface CopyInstruction extends Transfer {
  kind: "copy";
  /** Stage name or number, image, or build context; docker allows no variable in it. */
  from?: string;
  parents: boolean;
}

export interface AddInstruction extends Transfer {
  kind: "add";
  /** "sha256:…" of a remote file, or the commit of a git source. */
  checksum?: Word;
  /** Absent: depends on the source. */
  keepGitDir?: boolean;
  /** Absent: local archives are unpacked, remote ones are not. */
  unpack?: boolean;
}

export interface EnvInstruction extends Base {
  kind: "env";
  /** All values are expanded with the scope before the instruction. */
  pairs: { key: Word; value: Word }[];
  /** The form without "=". */
  legacy: boolean;
}

export interface LabelInstruction extends Base {
  kind: "label";
  pairs: { key: Word; value: Word }[];
  /** The form without "=". */
  legacy: boolean;
}

export interface ArgInstruction extends Base {
  kind: "arg";
  /** In order: a default may use the names before it. */
  args: { key: Word; value?: Word }[];
}

export interface WorkdirInstruction extends Base {
  kind: "workdir";
  path: Word;
}

export interface UserInstruction extends Base {
  kind: "user";
  user: Word;
}

export interface ShellInstruction extends Base {
  kind: "shell";
  args: string[];
}

export interface EntrypointInstruction extends Base {
  kind: "entrypoint";
  command: Command;
}

/** CMD; an empty exec form clears the base image's command. */
export interface CmdInstruction extends Base {
  kind: "cmd";
  command: Command;
}

export interface ExposeInstruction extends Base {
  kind: "expose";
  /** `port[-port][/protocol]`; one word may expand to several: use `expandWords`. */
  ports: Word[];
}

export interface VolumeInstruction extends Base {
  kind: "volume";
  paths: Word[];
}

export interface HealthcheckInstruction extends Base {
  kind: "healthcheck";
  /** Absent for `HEALTHCHECK NONE`. */
  test?: Command;
  /** Milliseconds; absent or 0: inherited or the engine's default. */
  interval?: number;
  timeout?: number;
  startPeriod?: number;
  startInterval?: number;
  retries?: number;
}

export interface StopsignalInstruction extends Base {
  kind: "stopsignal";
  signal: Word;
}

export interface OnbuildInstruction extends Base {
  kind: "onbuild";
  /**
   * The text for OnBuild of the image's configuration: the nested instruction on one line, then its heredocs.
   */
  trigger: string;
  /** The trigger, parsed; never FROM, ONBUILD or MAINTAINER. */
  instruction: Instruction;
}

export interface MaintainerInstruction extends Base {
  kind: "maintainer";
  name: string;
}

/** The instructions of a stage after its FROM. */
export type Instruction =
  | RunInstruction
  | CopyInstruction
  | AddInstruction
  | EnvInstruction
  | ArgInstruction
  | WorkdirInstruction
  | UserInstruction
  | ShellInstruction
  | EntrypointInstruction
  | CmdInstruction
  | ExposeInstruction
  | LabelInstruction
  | VolumeInstruction
  | HealthcheckInstruction
  | StopsignalInstruction
  | OnbuildInstruction
  | MaintainerInstruction;

export interface Stage {
  /** From 0. */
  index: number;
  /** In lower case, since names are compared without case. */
  name?: string;
  from: FromInstruction;
  instructions: Instruction[];
  /** Line of its FROM. */
  line: number;
  /** From the comment `# NAME text` straight above FROM. */
  description?: string;
}

export interface Warning {
  /** BuildKit's name of the rule, such as "StageNameCasing". */
  rule: string;
  message: string;
  line: number;
  /** The rule's page in docker's documentation. */
  url: string;
}

export interface Directives {
  /** Reference of a frontend image; kept for information and not used. */
  syntax?: string;
  escape: "\\" | "`";
  /** `error`: warnings make the build fail. */
  check?: { skip: string[] | "all"; error: boolean; experimental: string[] | "all" };
}

export interface Dockerfile {
  /** The file's name as given to the parser. */
  file: string;
  directives: Directives;
  /** ARGs before the first FROM. */
  globalArgs: ArgInstruction[];
  /** At least one. */
  stages: Stage[];
  /** By line, without those that `# check=skip=` names. */
  warnings: Warning[];
}

/** Variables that a word can use. A name that maps to undefined is unset. */
export interface Scope {
  get(name: string): string | undefined;
}

export interface ExpandOptions {
  /** `directives.escape`; default "\\". */
  escape?: "\\" | "`";
  /** Quotes are ordinary characters; only for the content of heredocs. */
  rawQuotes?: boolean;
  /** Names the file in errors. */
  file?: string;
}

export interface Expansion {
  value: string;
  /** Names that the word used, set or not, in order of first use. */
  used: string[];
  /** Names of `used` that were unset and had no default. */
  unset: string[];
}
