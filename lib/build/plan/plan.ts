/**
 * Turns a Dockerfile into the graph of one target. Only the stages that the target needs are read, images are
 * resolved for their configuration, and all words are expanded.
 */
import { SvcError } from "../../base/errors.ts";
import { suggestion } from "../../base/nearest.ts";
import { formatPlatform, hostPlatform, parsePlatform } from "../../oci/platform.ts";
import type { ImageResolver, ResolvedImage } from "../../oci/resolver.ts";
import type { Platform } from "../../oci/types.ts";
import type { Dockerfile, Instruction, Stage, Warning } from "../parse/ast.ts";
import type { Entitlement } from "../../api/build_entitlements.ts";
import { parseTrigger } from "../parse/parse.ts";
import { parseEpoch } from "./epoch.ts";
import { type CheckInput, otherPlatform, requireClean, warningsOf } from "./checks.ts";
import { type FilesystemTools, makesVertex, planCopy, planRun, planWorkdir } from "./filesystem.ts";
import {
  type BuildPlan,
  closure,
  type CopyVertex,
  type ImageVertex,
  type RunVertex,
  type Source,
  type TreeSource,
  type TreeVertex,
  type Vertex,
} from "./graph.ts";
import { parseHosts } from "./hosts.ts";
import { applyMetadata } from "./metadata.ts";
import { LimitsUsed } from "../parse/limits.ts";
import { atLine } from "./refusal.ts";
import { type Expand, expander, GlobalScope, platformArgs } from "./scope.ts";
import { beginStage, type StageState } from "./stage.ts";

export interface PlanRequest {
  dockerfile: Dockerfile;
  /** Present: build checks that need more than the text run too. */
  checks?: CheckInput;
  /** A stage's name or number; default the last. */
  target?: string;
  buildArgs: Record<string, string>;
  /** Labels that are set on the image at the end. */
  labels: Record<string, string>;
  /** Default the host's. */
  platform?: Platform;
  images: Pick<ImageResolver, "resolve">;
  /** Named contexts by {@linkcode contextName}: an image's name, or a tree. */
  contexts?: ReadonlyMap<string, PlannedContext>;
  /** In the form of a build request. */
  addHosts?: string[];
  network?: RunVertex["network"];
  /** Entitlements that the request asks for and the server permits. */
  allow?: readonly Entitlement[];
  /** Asks the registry again what a tag means. */
  pull?: boolean;
  /** Called with the number of the line that planning has reached. */
  onLine?: (line: number) => void;
  signal?: AbortSignal;
}

export type PlannedContext = { image: string } | { tree: TreeSource; label: string };

/** The form in which names of contexts are compared: "docker.io/library/alpine:latest" becomes "alpine". */
export function contextName(name: string): string {
  return name.toLowerCase().replace(/^(index\.)?docker\.io\//, "").replace(/^library\//, "")
    .replace(/:latest$/, "");
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
  #trees = new Map<TreeSource, TreeVertex>();
  /** Names of the variables that are set where a stage begins, by the stage's index. */
  #environments = new Map<number, string[]>();
  #otherPlatforms: Parameters<typeof warningsOf>[1]["otherPlatforms"][number][] = [];
  #hosts: RunVertex["hosts"];
  #usage: LimitsUsed;
  #ids = 0;

  constructor(request: PlanRequest) {
    this.#request = request;
    const { dockerfile } = request;
    this.#file = dockerfile.file;
    this.#usage = new LimitsUsed(dockerfile.file);
    this.#expand = expander(dockerfile.directives.escape, dockerfile.file, this.#usage);
    this.#platform = request.platform ?? this.#build;
    this.#hosts = parseHosts(request.addHosts ?? []);
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
    const vertices = closure(state.root);
    const warnings = this.#warnings(vertices);
    requireClean(this.#file, dockerfile.directives, warnings);
    const plan: BuildPlan = {
      vertices,
      root: state.root,
      platform: state.platform,
      config,
      history: state.history,
      warnings: warnings.map(({ message, line, rule }) => ({ message, line, rule })),
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

  #warnings(vertices: Vertex[]): Warning[] {
    const { dockerfile, checks } = this.#request;
    if (!checks) return dockerfile.warnings;
    return warningsOf(checks, {
      file: this.#file,
      vertices,
      environments: this.#environments,
      otherPlatforms: this.#otherPlatforms,
    });
  }

  /** Build arguments that no ARG declares, apart from the predefined ones. */
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
    const { images, pull, signal } = this.#request;
    let image: ResolvedImage;
    try {
      image = await images.resolve(name, { platform, ...(pull && { pull }), signal });
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      throw new SvcError(error.code, `Line ${line}: ${error.message}`, {
        cause: error,
        help: error.help,
        detail: { ...error.detail, file: this.#file, line },
      });
    }
    const other = otherPlatform(image, platform, line);
    if (other) this.#otherPlatforms.push(other);
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

  #context(name: string, platform: Platform): PlannedContext | undefined {
    const { contexts } = this.#request;
    const key = contextName(name);
    return contexts?.get(`${key}::${formatPlatform(platform)}`) ?? contexts?.get(key);
  }

  #tree({ tree, label }: Extract<PlannedContext, { tree: TreeSource }>, line: number): TreeVertex {
    let known = this.#trees.get(tree);
    if (!known) {
      const name = `[context ${label}] load`;
      known = { kind: "tree", id: this.#nextId(), name, line, text: `context ${label}`, tree };
      this.#trees.set(tree, known);
    }
    return known;
  }

  async #source(name: string, asking: Stage, platform: Platform, line: number): Promise<Source> {
    const context = this.#context(name, platform);
    if (context && "tree" in context) return this.#tree(context, line);
    if (context) return (await this.#image(context.image, platform, line)).vertex;
    const stage = this.#stageNamed(name, asking, line);
    if (stage) return (await this.#stage(stage)).root;
    if (name.toLowerCase() === "scratch") return "scratch";
    try {
      return (await this.#image(name, platform, line)).vertex;
    } catch (error) {
      // A name that no stage can have was meant as an image's name.
      if (!(error instanceof SvcError) || !/^[a-z][\w.-]*$/i.test(name)) throw error;
      const names = this.#request.dockerfile.stages.slice(0, asking.index)
        .flatMap((stage) => stage.name ?? []);
      const near = suggestion(name, names);
      const tried = error.cause instanceof SvcError ? error.cause.message : error.message;
      throw new SvcError(
        error.code,
        `Line ${line}: ${name} is not an earlier stage${near} (and as an image: ${tried})`,
        { cause: error, help: error.help, detail: { ...error.detail, file: this.#file, line } },
      );
    }
  }

  /**
   * The stage that `--from=NAME` means; undefined where there is none. Only earlier stages can be copied
   * from.
   */
  #stageNamed(name: string, asking: Stage, line: number): Stage | undefined {
    const earlier = this.#earlier(name, asking.index);
    if (earlier) return earlier;
    const { stages } = this.#request.dockerfile;
    const number = /^\d+$/.test(name);
    const stage = number
      ? stages[Number(name)]
      : stages.find((stage) => stage.name === name.toLowerCase());
    if (!stage && !number) return undefined;
    if (stage && stage.index < asking.index) return stage;
    const what = !stage
      ? `there is no stage of that number; the first one is 0, and ${asking.index} come before it`
      : stage.index === asking.index
      ? "that is the stage it stands in"
      : `that stage begins on line ${stage.line}, after this one; a stage takes from those before it`;
    throw atLine(this.#file, line, `--from=${name}: ${what}`);
  }

  /** `FROM NAME` where NAME is a context of files: its files are the stage's first layer. */
  #fromTree(tree: TreeVertex, stage: Stage): CopyVertex {
    const { line, text } = stage.from;
    return {
      kind: "copy",
      id: this.#nextId(),
      name: text,
      line,
      text,
      instruction: "COPY",
      base: "scratch",
      parts: [{ from: tree, sources: ["/"], unpack: false }],
      inline: [],
      destination: "/",
      parents: false,
      exclude: [],
      link: false,
    };
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
    const own = stage.name === undefined ? undefined : this.#context(stage.name, platform);
    const context = own ?? this.#context(name, platform);
    if (context && "tree" in context) {
      const root = this.#fromTree(this.#tree(context, line), stage);
      const state = beginStage(stage, label, platform, this.#global, undefined);
      state.root = root;
      state.history.push({ entry: { created_by: root.text }, vertex: root });
      return state;
    }
    const parent = context ? undefined : this.#earlier(name, stage.index);
    if (parent) {
      const state = await this.#stage(parent);
      return beginStage(stage, label, state.platform, this.#global, { parent: state });
    }
    if (!context && name === "scratch") {
      return beginStage(stage, label, platform, this.#global, undefined);
    }
    const used = await this.#image(context?.image ?? name, platform, line);
    return beginStage(stage, label, platform, this.#global, used);
  }

  /** The base image's ONBUILD instructions. */
  #triggers(state: StageState): Instruction[] {
    const triggers = state.config.OnBuild ?? [];
    delete state.config.OnBuild;
    // Errors name the FROM line: the text of the trigger is in the base image, not in this file.
    const { line } = state.stage;
    return triggers.map((trigger) => ({ ...parseTrigger(trigger, { file: this.#file }), line }));
  }

  async #readStage(stage: Stage): Promise<StageState> {
    const state = await this.#begin(stage);
    // Each stage holds a copy of the configuration that it begins with.
    this.#usage.add("expanded", JSON.stringify(state.config).length, stage.line);
    this.#environments.set(stage.index, state.scope.names());
    const instructions = [...this.#triggers(state), ...stage.instructions];
    state.steps = instructions.filter(makesVertex).length;
    const tools: FilesystemTools = {
      expand: this.#expand,
      file: this.#file,
      nextId: () => this.#nextId(),
      source: (name, line) => this.#source(name, stage, state.platform, line),
      hosts: this.#hosts,
      network: this.#request.network ?? "default",
      allow: this.#request.allow ?? [],
      usage: this.#usage,
    };
    const metadata = {
      expand: this.#expand,
      escape: this.#request.dockerfile.directives.escape,
      file: this.#file,
      usage: this.#usage,
    };
    for (const instruction of instructions) {
      this.#request.signal?.throwIfAborted();
      this.#request.onLine?.(instruction.line);
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

/**
 * Throws `dockerfile_invalid` or `unsupported` (with the line), `manifest_unknown`, `reference_invalid`
 * or `upstream_failed` for an image.
 */
export function planBuild(request: PlanRequest): Promise<BuildPlan> {
  return new Planner(request).plan();
}
