/**
 * From a Dockerfile to the graph of one target: only the stages it needs are read, images are resolved to
 * know their configuration, and everything is expanded.
 */
import { SvcError } from "../../base/errors.ts";
import { suggestion } from "../../base/nearest.ts";
import { formatPlatform, hostPlatform, parsePlatform } from "../../oci/platform.ts";
import type { ImageResolver, ResolvedImage } from "../../oci/resolver.ts";
import type { Platform } from "../../oci/types.ts";
import type { Dockerfile, Instruction, Stage } from "../parse/ast.ts";
import { parseDockerfile } from "../parse/parse.ts";
import { type FilesystemTools, makesVertex, planCopy, planRun, planWorkdir } from "./filesystem.ts";
import { type BuildPlan, closure, type ImageVertex, type Source } from "./graph.ts";
import { applyMetadata } from "./metadata.ts";
import { atLine } from "./refusal.ts";
import { type Expand, expander, GlobalScope, platformArgs } from "./scope.ts";
import { beginStage, type StageState } from "./stage.ts";

export interface PlanRequest {
  dockerfile: Dockerfile;
  /** A stage's name or number; default the last. */
  target?: string;
  buildArgs: Record<string, string>;
  /** Set on the image at the end. */
  labels: Record<string, string>;
  /** Default the host's. */
  platform?: Platform;
  images: ImageResolver;
  signal?: AbortSignal;
}

interface UsedImage {
  image: ResolvedImage;
  vertex: ImageVertex;
}

class Planner {
  #request: PlanRequest;
  #file: string;
  #expand: Expand;
  #platform: Platform;
  #build = hostPlatform();
  #global: GlobalScope;
  #stages = new Map<number, Promise<StageState>>();
  #images = new Map<string, Promise<UsedImage>>();
  #ids = 0;

  constructor(request: PlanRequest) {
    this.#request = request;
    const { dockerfile } = request;
    this.#file = dockerfile.file;
    this.#expand = expander(dockerfile.directives.escape, dockerfile.file);
    this.#platform = request.platform ?? this.#build;
    this.#global = new GlobalScope(
      platformArgs(this.#build, this.#platform, request.target ?? "default"),
      request.buildArgs,
      dockerfile.globalArgs,
      this.#expand,
    );
  }

  async plan(): Promise<BuildPlan> {
    const target = this.#target();
    const state = await this.#stage(target);
    const { labels, buildArgs, dockerfile } = this.#request;
    const config = state.config;
    if (Object.keys(labels).length > 0) config.Labels = { ...config.Labels, ...labels };
    const plan: BuildPlan = {
      vertices: closure(state.root),
      root: state.root,
      platform: state.platform,
      config,
      history: state.history,
      warnings: dockerfile.warnings.map(({ message, line }) => ({ message, line })),
    };
    if (state.base) plan.base = state.base;
    if (state.author !== undefined) plan.author = state.author;
    const epoch = buildArgs.SOURCE_DATE_EPOCH;
    if (epoch !== undefined && epoch !== "") plan.epoch = parseEpoch(epoch);
    for (const name of this.#unused()) {
      plan.warnings.push({ message: `Build argument ${name} is not used: no ARG names it` });
    }
    return plan;
  }

  #target(): Stage {
    const { stages } = this.#request.dockerfile;
    const wanted = this.#request.target;
    if (wanted === undefined || wanted === "") return stages.at(-1)!;
    const found = stages.findLast((stage) => stage.name === wanted.toLowerCase()) ??
      (/^\d+$/.test(wanted) ? stages[Number(wanted)] : undefined);
    if (found) return found;
    const names = stages.flatMap((stage) => stage.name ?? []);
    throw new SvcError(
      "dockerfile_invalid",
      `Cannot build target ${wanted}: ${this.#file} has no such stage${suggestion(wanted, names)}`,
      { help: names.length > 0 ? `its stages are ${names.join(", ")}` : "name a stage with AS" },
    );
  }

  /** Build arguments that no ARG of the file declares, but for those that always count. */
  #unused(): string[] {
    const known = new Set([...this.#global.platform.keys(), "SOURCE_DATE_EPOCH"]);
    const { dockerfile, buildArgs } = this.#request;
    const declared = [
      ...dockerfile.globalArgs,
      ...dockerfile.stages.flatMap((stage) =>
        stage.instructions.flatMap((instruction) => instruction.kind === "arg" ? instruction : [])
      ),
    ];
    for (const { key } of declared.flatMap((arg) => arg.args)) known.add(key.raw);
    return Object.keys(buildArgs).filter((name) =>
      !known.has(name) && !/^(https?|ftp|no|all)_proxy$/i.test(name) &&
      !name.startsWith("BUILDKIT_")
    );
  }

  #stage(stage: Stage): Promise<StageState> {
    let known = this.#stages.get(stage.index);
    if (!known) this.#stages.set(stage.index, known = this.#readStage(stage));
    return known;
  }

  #earlier(name: string, before: number): Stage | undefined {
    const lower = name.toLowerCase();
    return this.#request.dockerfile.stages.slice(0, before).findLast((stage) =>
      stage.name === lower
    );
  }

  #image(name: string, platform: Platform, line: number): Promise<UsedImage> {
    const key = `${name} ${formatPlatform(platform)}`;
    let known = this.#images.get(key);
    if (!known) this.#images.set(key, known = this.#resolve(name, platform, line));
    return known;
  }

  async #resolve(name: string, platform: Platform, line: number): Promise<UsedImage> {
    const { images, signal } = this.#request;
    let image: ResolvedImage;
    try {
      image = await images.resolve(name, { platform, signal });
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      throw new SvcError(error.code, `Line ${line}: ${error.message}`, {
        cause: error,
        help: error.help,
        detail: { ...error.detail, file: this.#file, line },
      });
    }
    const text = `FROM ${image.name}`;
    const vertex: ImageVertex = {
      kind: "image",
      id: this.#nextId(),
      name: text,
      line,
      text,
      image,
    };
    return { image, vertex };
  }

  #nextId(): string {
    return `v${this.#ids++}`;
  }

  async #source(name: string, before: number, platform: Platform, line: number): Promise<Source> {
    const named = this.#earlier(name, before);
    if (named) return (await this.#stage(named)).root;
    const { stages } = this.#request.dockerfile;
    if (/^\d+$/.test(name)) {
      const stage = stages[Number(name)];
      if (stage && stage.index < before) return (await this.#stage(stage)).root;
      throw atLine(this.#file, line, `--from=${name}: there is no earlier stage of that number`);
    }
    if (stages.some((stage) => stage.name === name.toLowerCase())) {
      throw atLine(this.#file, line, `--from=${name}: that stage comes later; move it up`);
    }
    if (name.toLowerCase() === "scratch") return "scratch";
    return (await this.#image(name, platform, line)).vertex;
  }

  async #begin(stage: Stage): Promise<StageState> {
    const { from, line } = stage;
    const name = this.#expand(from.image, this.#global);
    if (name === "") {
      throw atLine(this.#file, line, `FROM ${from.image.raw}: the image's name is empty`);
    }
    const { stages } = this.#request.dockerfile;
    const label = stage.name ?? (stages.length > 1 ? `stage-${stage.index}` : "stage");
    const platformText = from.platform && this.#expand(from.platform, this.#global);
    const platform = platformText ? parsePlatform(platformText) : this.#platform;
    const parent = this.#earlier(name, stage.index);
    if (parent) {
      const state = await this.#stage(parent);
      return beginStage(stage, label, state.platform, this.#global, { parent: state });
    }
    if (name === "scratch") return beginStage(stage, label, platform, this.#global, undefined);
    const used = await this.#image(name, platform, line);
    return beginStage(stage, label, platform, this.#global, used);
  }

  /** What the base image asks its children to do first. */
  #triggers(state: StageState): Instruction[] {
    const triggers = state.config.OnBuild ?? [];
    delete state.config.OnBuild;
    return triggers.flatMap((trigger) => {
      const parsed = parseDockerfile(`FROM scratch\n${trigger}\n`, { file: this.#file });
      // Its line is the FROM that brought it: the text it stood in is not at hand.
      return parsed.stages[0].instructions.map((instruction) => ({
        ...instruction,
        line: state.stage.line,
      }));
    });
  }

  async #readStage(stage: Stage): Promise<StageState> {
    const state = await this.#begin(stage);
    const instructions = [...this.#triggers(state), ...stage.instructions];
    state.steps = instructions.filter(makesVertex).length;
    const tools: FilesystemTools = {
      expand: this.#expand,
      file: this.#file,
      nextId: () => this.#nextId(),
      source: (name, line) => this.#source(name, stage.index, state.platform, line),
    };
    const metadata = {
      expand: this.#expand,
      escape: this.#request.dockerfile.directives.escape,
      file: this.#file,
    };
    for (const instruction of instructions) {
      this.#request.signal?.throwIfAborted();
      if (applyMetadata(state, instruction, metadata)) continue;
      if (instruction.kind === "workdir") planWorkdir(state, instruction, tools);
      else if (instruction.kind === "run") await planRun(state, instruction, tools);
      else if (instruction.kind === "copy" || instruction.kind === "add") {
        await planCopy(state, instruction, tools);
      }
    }
    return state;
  }
}

function parseEpoch(text: string): number {
  if (!/^\d{1,12}$/.test(text)) {
    throw new SvcError(
      "argument_invalid",
      `Cannot use SOURCE_DATE_EPOCH=${text}: expected whole seconds since 1970`,
    );
  }
  return Number(text);
}

/**
 * Throws `dockerfile_invalid` or `unsupported` (with the line), `manifest_unknown`, `reference_invalid`
 * or `upstream_failed` for an image.
 */
export function planBuild(request: PlanRequest): Promise<BuildPlan> {
  return new Planner(request).plan();
}
