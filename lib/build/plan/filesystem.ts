/** Instructions that make a file system: RUN, COPY, ADD, WORKDIR. */
import { posix } from "node:path";
import type {
  AddInstruction,
  CopyInstruction,
  Heredoc,
  Instruction,
  RunInstruction,
  WorkdirInstruction,
} from "../parse/ast.ts";
import { parseGitUrl } from "../context/git_url.ts";
import { fileNameOf, isHttpUrl, parseChecksum } from "../context/http_url.ts";
import { type Entitlement, parseEntitlement } from "../../api/build_entitlements.ts";
import { heredocText } from "../parse/ast.ts";
import { expandHeredoc } from "../parse/expand.ts";
import { resolveMount } from "../parse/mounts.ts";
import { DEFAULT_PATH } from "../parse/predefined.ts";
import {
  type CopyPart,
  type CopyVertex,
  type InlineFile,
  type RunMount,
  type RunVertex,
  SCRIPT_FOLDER,
  type Source,
  type TreeVertex,
  type Vertex,
} from "./graph.ts";
import { checkLayers, type LimitsUsed } from "../parse/limits.ts";
import { PlannedTree } from "./planned_tree.ts";
import { atLine } from "./refusal.ts";
import { type Expand, proxyEnv } from "./scope.ts";
import { absolute, shellOf, type StageState, stepName } from "./stage.ts";

/** Folder of an agent's socket where the mount names no target. */
const AGENT_FOLDER = "/run/buildkit";

export interface FilesystemTools {
  expand: Expand;
  file: string;
  nextId: () => string;
  /** The source that `--from=NAME` means here: a named context, a stage, or an image. */
  source: (name: string, line: number) => Promise<Source>;
  /** Additional lines of every step's /etc/hosts. */
  hosts: RunVertex["hosts"];
  /** Network of a RUN without `--network`. */
  network: RunVertex["network"];
  allow: readonly Entitlement[];
  usage: LimitsUsed;
}

/** True where an instruction becomes a vertex of its own. */
export function makesVertex(instruction: Instruction): boolean {
  return ["run", "copy", "add", "workdir"].includes(instruction.kind);
}

/** Puts `vertex` on top of the stage. */
function append(
  state: StageState,
  vertex: Vertex,
  created_by: string,
  { file, usage }: FilesystemTools,
): void {
  const line = vertex.line ?? state.stage.line;
  checkLayers(file, line, ++state.layers);
  usage.add("expanded", created_by.length, line);
  state.root = vertex;
  state.history.push({ entry: { created_by }, vertex });
}

function common(state: StageState, instruction: Instruction, tools: FilesystemTools) {
  return {
    id: tools.nextId(),
    name: stepName(state, instruction.text),
    stage: state.label,
    line: instruction.line,
    text: instruction.text,
  };
}

export function planWorkdir(
  state: StageState,
  instruction: WorkdirInstruction,
  tools: FilesystemTools,
): void {
  const path = state.config.WorkingDir!;
  if (path === "/") {
    state.step++;
    state.history.push({ entry: { created_by: `WORKDIR ${path}` } });
    return;
  }
  append(
    state,
    {
      ...common(state, instruction, tools),
      kind: "workdir",
      base: state.root,
      path,
      user: state.config.User ?? "",
    },
    `WORKDIR ${path}`,
    tools,
  );
}

function inlineFile(
  state: StageState,
  heredoc: Heredoc,
  { file, usage }: FilesystemTools,
): InlineFile {
  if (/^\.{0,2}$|\//.test(heredoc.name)) {
    throw atLine(file, heredoc.line, `<<${heredoc.name}: it cannot be the name of a file`);
  }
  const data = expandHeredoc(heredoc, state.scope, { file }).value;
  usage.add("expanded", data.length, heredoc.line);
  return { name: heredoc.name, data };
}

/** A part for a source of ADD that the server fetches. */
function remotePart(
  state: StageState,
  source: string,
  instruction: AddInstruction,
  checksum: string | undefined,
  tools: FilesystemTools,
): CopyPart | undefined {
  const git = parseGitUrl(source);
  if (!git && !isHttpUrl(source)) return undefined;
  if (!git && !URL.canParse(source)) {
    throw atLine(tools.file, instruction.line, `ADD ${source}: it is not a valid URL`);
  }
  const name = git ? "/" : fileNameOf(source);
  if (!git && checksum !== undefined) parseChecksum(checksum, source);
  const tree = new PlannedTree(
    git
      ? {
        kind: "git",
        source: { ...git, checksum, keepGitDir: instruction.keepGitDir ?? git.keepGitDir },
      }
      : { kind: "http", url: source, checksum },
  );
  const text = `${git ? "git" : "http"} ${source}`;
  const vertex: TreeVertex = {
    kind: "tree",
    id: tools.nextId(),
    name: `[${state.label}] ${text}`,
    stage: state.label,
    line: instruction.line,
    text: instruction.text,
    tree,
  };
  return {
    from: vertex,
    fromName: source,
    sources: [name],
    unpack: !git && instruction.unpack === true,
  };
}

/** The parts of an ADD; consecutive sources from one place form one part. */
function addParts(
  state: StageState,
  instruction: AddInstruction,
  sources: string[],
  tools: FilesystemTools,
): CopyPart[] {
  const { line, checksum: word } = instruction;
  const checksum = word && tools.expand(word, state.scope);
  const parts: CopyPart[] = [];
  for (const source of sources) {
    const remote = remotePart(state, source, instruction, checksum, tools);
    if (remote) {
      parts.push(remote);
      continue;
    }
    if (checksum !== undefined) {
      throw atLine(
        tools.file,
        line,
        `ADD --checksum: ${source} is neither a URL nor a git repository`,
      );
    }
    const last = parts.at(-1);
    if (last?.from === "context") last.sources.push(source);
    else {
      const unpack = instruction.unpack !== false;
      parts.push({ from: "context", sources: [source], unpack });
    }
  }
  if (checksum !== undefined && parts.length > 1) {
    throw atLine(tools.file, line, "ADD --checksum: it goes with one source only");
  }
  return parts;
}

async function copyParts(
  instruction: CopyInstruction,
  sources: string[],
  tools: FilesystemTools,
): Promise<CopyPart[]> {
  if (sources.length === 0) return [];
  const { from: name, line } = instruction;
  if (name === undefined) return [{ from: "context", sources, unpack: false }];
  const from = await tools.source(name, line);
  return [{ from, fromName: name, sources, unpack: false }];
}

export async function planCopy(
  state: StageState,
  instruction: CopyInstruction | AddInstruction,
  tools: FilesystemTools,
): Promise<void> {
  const { line, kind } = instruction;
  const keyword = kind === "copy" ? "COPY" : "ADD";
  const value = (word: Parameters<Expand>[0]) => tools.expand(word, state.scope);
  const sources = instruction.sources.map(value);
  const destination = value(instruction.destination);
  if (destination === "") {
    throw atLine(tools.file, line, `${keyword}: the destination is empty`);
  }
  const empty = sources.find((source) => source === "");
  if (empty !== undefined) throw atLine(tools.file, line, `${keyword}: a source is empty`);
  const target = absolute(state, destination);
  if (sources.length + instruction.files.length > 1 && !target.endsWith("/")) {
    throw atLine(
      tools.file,
      line,
      `${keyword}: with more than one source the destination ${destination} has to end in /`,
    );
  }
  const vertex: CopyVertex = {
    ...common(state, instruction, tools),
    kind: "copy",
    instruction: keyword,
    base: state.root,
    parts: kind === "copy"
      ? await copyParts(instruction, sources, tools)
      : addParts(state, instruction, sources, tools),
    inline: instruction.files.map((heredoc) => inlineFile(state, heredoc, tools)),
    destination: target,
    parents: kind === "copy" && instruction.parents,
    exclude: instruction.exclude.map(value),
    // With --chmod, a linked copy is made as any other copy.
    link: instruction.link && instruction.chmod === undefined,
  };
  if (instruction.chown) vertex.chown = value(instruction.chown);
  if (instruction.chmod) vertex.chmod = value(instruction.chmod);
  const flags = [
    vertex.parents ? "--parents " : "",
    vertex.chown === undefined ? "" : `--chown=${vertex.chown} `,
    vertex.chmod === undefined ? "" : `--chmod=${vertex.chmod} `,
  ].join("");
  const names = [...sources, ...vertex.inline.map((inline) => `<<${inline.name}`)].join(" ");
  append(state, vertex, `${keyword} ${flags}${names} ${destination} # buildkit`, tools);
}

async function planMounts(
  state: StageState,
  instruction: RunInstruction,
  tools: FilesystemTools,
): Promise<RunMount[]> {
  const { line } = instruction;
  const mounts: RunMount[] = [];
  const source = async (from: string | undefined, otherwise: Source) =>
    from === undefined ? otherwise : await tools.source(from, line);
  let agents = 0;
  for (const written of instruction.mounts) {
    const mount = resolveMount(written, (word) => tools.expand(word, state.scope), tools.file);
    const wanted = mount.type === "ssh"
      ? mount.target ?? `${AGENT_FOLDER}/ssh_agent.${agents++}`
      : mount.target;
    const target = wanted === undefined
      ? undefined
      : absolute(state, wanted).replace(/(.)\/$/, "$1");
    if (target === "/") {
      throw atLine(tools.file, line, `RUN --mount=${written.raw}: target is the root`);
    }
    if (mount.type === "secret") {
      const { target: _target, ...rest } = mount;
      mounts.push(target === undefined ? rest : { ...rest, target });
      continue;
    }
    // Only a secret may have no target.
    const at = { target: target! };
    if (mount.type === "ssh" || mount.type === "tmpfs") mounts.push({ ...mount, ...at });
    else if (mount.type === "bind") {
      const { readOnly, ...rest } = mount;
      const from = await source(mount.from, "context");
      mounts.push({ ...rest, ...at, from, writable: !readOnly });
    } else mounts.push({ ...mount, ...at, from: await source(mount.from, "scratch") });
  }
  return mounts;
}

function command(state: StageState, run: RunInstruction): { args: string[]; script?: InlineFile } {
  if (run.command.form === "exec") return { args: run.command.args };
  if (run.script) {
    const data = heredocText(run.script);
    if (!data.startsWith("#!")) return { args: [...shellOf(state), data] };
    // A heredoc's terminator may be any word; only a plain one becomes the script's name.
    const name = /^\w[\w.-]*$/.test(run.script.name) ? run.script.name : "script";
    return { args: [...shellOf(state), `${SCRIPT_FOLDER}/${name}`], script: { name, data } };
  }
  return { args: [...shellOf(state), run.command.text] };
}

function needsOf(
  { line, security, network }: RunInstruction,
  { allow, file, network: usual }: FilesystemTools,
): Entitlement[] {
  const asked: [needed: Entitlement, by: string][] = [
    ...(security === "insecure" ? [["security.insecure", `--security=${security}`] as const] : []),
    ...((network === "default" ? usual : network) === "host"
      ? [["network.host", "--network=host"] as const]
      : []),
  ].map(([needed, by]) => [needed, by]);
  return asked.map(([needed, by]) => {
    if (allow.includes(needed)) return needed;
    throw atLine(
      file,
      line,
      `RUN ${by}: the build is not allowed ${needed}; ask for it with --allow ${needed}, where the ` +
        "server permits it (SVC_BUILD_ENTITLEMENTS)",
      "denied",
    );
  });
}

/** `--device=NAME[,required]`. A name that the request gave as an alias is replaced by its device. */
function devicesOf(
  { line, devices }: RunInstruction,
  { allow, file }: FilesystemTools,
): RunVertex["devices"] {
  const aliases = new Map(allow.map(parseEntitlement).map(({ alias, device }) => [alias, device]));
  const meant = (name: string) => aliases.get(name) ?? name;
  return devices.map((text) => {
    const device = { name: "", required: false };
    for (const field of text.split(",")) {
      const [, key, value] = /^(name|required)(?:=(.*))?$/.exec(field) ?? [];
      if (key === "required" && /^(true|1|false|0)?$/.test(value ?? "")) {
        device.required = value === undefined || value === "true" || value === "1";
      } else if (device.name === "" && key !== "required") device.name = value ?? field;
      else throw atLine(file, line, `RUN --device=${text}: ${JSON.stringify(field)} is not known`);
    }
    if (device.name !== "") return { ...device, name: meant(device.name) };
    throw atLine(file, line, `RUN --device=${text}: the device has no name`);
  });
}

export async function planRun(
  state: StageState,
  instruction: RunInstruction,
  tools: FilesystemTools,
): Promise<void> {
  const { line } = instruction;
  const needs = needsOf(instruction, tools);
  const { args, script } = command(state, instruction);
  if (args.length === 0) throw atLine(tools.file, line, "RUN: there is no command");
  const visible = state.scope.visibleArgs();
  const env = state.scope.stepEnv();
  tools.usage.add("expanded", env.reduce((sum, entry) => sum + entry.length, 0), line);
  if (!env.some((entry) => entry.startsWith("PATH="))) env.push(`PATH=${DEFAULT_PATH}`);
  const vertex: RunVertex = {
    ...common(state, instruction, tools),
    kind: "run",
    base: state.root,
    args,
    env,
    hiddenEnv: proxyEnv(state.scope.global.buildArgs),
    workingDir: posix.normalize(state.config.WorkingDir || "/").replace(/(.)\/$/, "$1"),
    user: state.config.User ?? "",
    network: instruction.network === "default" ? tools.network : instruction.network,
    needs,
    devices: devicesOf(instruction, tools),
    hosts: tools.hosts,
    mounts: await planMounts(state, instruction, tools),
    platform: state.platform,
  };
  if (script) vertex.script = script;
  const prefix = visible.length > 0 ? `|${visible.length} ${visible.join(" ")} ` : "";
  append(state, vertex, `RUN ${prefix}${args.join(" ")} # buildkit`, tools);
}
