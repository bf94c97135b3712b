/** Instructions that make a file system: RUN, COPY, ADD, WORKDIR. */
import type {
  AddInstruction,
  CopyInstruction,
  Heredoc,
  Instruction,
  RunInstruction,
  WorkdirInstruction,
} from "../parse/ast.ts";
import { heredocText } from "../parse/ast.ts";
import { expandHeredoc } from "../parse/expand.ts";
import { resolveMount } from "../parse/mounts.ts";
import { DEFAULT_PATH } from "../parse/predefined.ts";
import {
  type CopyVertex,
  type InlineFile,
  type RunMount,
  type RunVertex,
  SCRIPT_FOLDER,
  type Source,
  type Vertex,
} from "./graph.ts";
import { atLine, notYet } from "./refusal.ts";
import { type Expand, proxyEnv } from "./scope.ts";
import { absolute, shellOf, type StageState, stepName } from "./stage.ts";

export interface FilesystemTools {
  expand: Expand;
  file: string;
  nextId: () => string;
  /** What `--from=NAME` means at this place: an earlier stage, or an image. */
  source: (name: string, line: number) => Promise<Source>;
}

/** True where an instruction becomes a vertex of its own. */
export function makesVertex(instruction: Instruction): boolean {
  return ["run", "copy", "add", "workdir"].includes(instruction.kind);
}

/** Puts `vertex` on top of the stage. */
function append(state: StageState, vertex: Vertex, created_by: string): void {
  state.root = vertex;
  state.history.push({ entry: { created_by: `${created_by} # buildkit` }, vertex });
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
  );
}

const REMOTE = /^(https?|ftp):\/\//i;
const GIT = /^(git:\/\/|git@|ssh:\/\/)|\.git(#.*)?$/i;

function inlineFile(state: StageState, heredoc: Heredoc, file: string): InlineFile {
  if (/^\.{0,2}$|\//.test(heredoc.name)) {
    throw atLine(file, heredoc.line, `<<${heredoc.name}: it cannot be the name of a file`);
  }
  return { name: heredoc.name, data: expandHeredoc(heredoc, state.scope, { file }).value };
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
  if (kind === "add") {
    for (const source of sources) {
      const remote = GIT.test(source) ? "a git repository" : REMOTE.test(source) ? "a URL" : "";
      if (remote) throw notYet(tools.file, line, `ADD of ${remote} (${source})`);
    }
    if (instruction.checksum) throw notYet(tools.file, line, "ADD --checksum");
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
  const from = kind === "copy" ? instruction.from : undefined;
  const vertex: CopyVertex = {
    ...common(state, instruction, tools),
    kind: "copy",
    instruction: keyword,
    base: state.root,
    from: from === undefined ? "context" : await tools.source(from, line),
    sources,
    inline: instruction.files.map((heredoc) => inlineFile(state, heredoc, tools.file)),
    destination: target,
    parents: kind === "copy" && instruction.parents,
    exclude: instruction.exclude.map(value),
    unpack: kind === "add" && instruction.unpack !== false,
  };
  if (from !== undefined) vertex.fromName = from;
  if (instruction.chown) vertex.chown = value(instruction.chown);
  if (instruction.chmod) vertex.chmod = value(instruction.chmod);
  const flags = [
    from === undefined ? "" : `--from=${from} `,
    vertex.chown === undefined ? "" : `--chown=${vertex.chown} `,
    vertex.chmod === undefined ? "" : `--chmod=${vertex.chmod} `,
  ].join("");
  const names = [...sources, ...vertex.inline.map((inline) => inline.name)].join(" ");
  append(state, vertex, `${keyword} ${flags}${names} ${destination}`);
}

async function planMounts(
  state: StageState,
  instruction: RunInstruction,
  tools: FilesystemTools,
): Promise<RunMount[]> {
  const mounts: RunMount[] = [];
  for (const written of instruction.mounts) {
    const mount = resolveMount(written, (word) => tools.expand(word, state.scope), tools.file);
    if (mount.type === "secret" || mount.type === "ssh") {
      throw notYet(tools.file, instruction.line, `RUN --mount=type=${mount.type}`);
    }
    const target = absolute(state, mount.target).replace(/(.)\/$/, "$1");
    if (target === "/") {
      throw atLine(tools.file, instruction.line, `RUN --mount=${written.raw}: target is the root`);
    }
    switch (mount.type) {
      case "tmpfs":
        mounts.push({
          type: "tmpfs",
          target,
          ...(mount.size !== undefined && { size: mount.size }),
        });
        break;
      case "bind":
        mounts.push({
          type: "bind",
          from: mount.from === undefined
            ? "context"
            : await tools.source(mount.from, instruction.line),
          source: mount.source,
          target,
          writable: !mount.readOnly,
        });
        break;
      case "cache":
        mounts.push({
          type: "cache",
          id: mount.id,
          from: mount.from === undefined
            ? "scratch"
            : await tools.source(mount.from, instruction.line),
          source: mount.source,
          target,
          sharing: mount.sharing,
          readOnly: mount.readOnly,
          mode: mount.mode,
          uid: mount.uid,
          gid: mount.gid,
        });
    }
  }
  return mounts;
}

function command(state: StageState, run: RunInstruction): { args: string[]; script?: InlineFile } {
  if (run.command.form === "exec") return { args: run.command.args };
  if (run.script) {
    const data = heredocText(run.script);
    if (!data.startsWith("#!")) return { args: [...shellOf(state), data] };
    // A terminator may be any word; the file's name is the step's business only where it is a plain one.
    const name = /^\w[\w.-]*$/.test(run.script.name) ? run.script.name : "script";
    return { args: [`${SCRIPT_FOLDER}/${name}`], script: { name, data } };
  }
  return { args: [...shellOf(state), run.command.text] };
}

export async function planRun(
  state: StageState,
  instruction: RunInstruction,
  tools: FilesystemTools,
): Promise<void> {
  const { line } = instruction;
  if (instruction.security !== "sandbox") {
    throw notYet(tools.file, line, `RUN --security=${instruction.security}`);
  }
  if (instruction.devices.length > 0) throw notYet(tools.file, line, "RUN --device");
  const { args, script } = command(state, instruction);
  if (args.length === 0) throw atLine(tools.file, line, "RUN: there is no command");
  const visible = state.scope.visibleArgs();
  const env = [...visible, ...state.config.Env!];
  if (!env.some((entry) => entry.startsWith("PATH="))) env.push(`PATH=${DEFAULT_PATH}`);
  const vertex: RunVertex = {
    ...common(state, instruction, tools),
    kind: "run",
    base: state.root,
    args,
    env,
    hiddenEnv: proxyEnv(state.scope.global.buildArgs),
    workingDir: state.config.WorkingDir || "/",
    user: state.config.User ?? "",
    network: instruction.network,
    mounts: await planMounts(state, instruction, tools),
    platform: state.platform,
  };
  if (script) vertex.script = script;
  const shown = script ? ["<<" + script.name] : args;
  const prefix = visible.length > 0 ? `|${visible.length} ${visible.join(" ")} ` : "";
  append(state, vertex, `RUN ${prefix}${shown.join(" ")}`);
}
