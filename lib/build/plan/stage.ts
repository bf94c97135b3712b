/** A stage while its instructions are read: its file system, its configuration, its history. */
import { posix } from "node:path";
import type { ResolvedImage } from "../../oci/resolver.ts";
import type { ContainerConfig, ImageConfig, Platform } from "../../oci/types.ts";
import type { Stage } from "../parse/ast.ts";
import { DEFAULT_PATH, DEFAULT_SHELL } from "../parse/predefined.ts";
import type { PlannedHistory, Source, Vertex } from "./graph.ts";
import { type GlobalScope, StageScope } from "./scope.ts";

export interface StageState {
  stage: Stage;
  /** The stage's name, or `stage-N`. */
  label: string;
  platform: Platform;
  root: Source;
  base?: ResolvedImage;
  config: ContainerConfig;
  author?: string;
  history: PlannedHistory[];
  scope: StageScope;
  /** True after a CMD of this stage: a later ENTRYPOINT then keeps it. */
  ownCommand: boolean;
  /** Number of layers of the file system so far. */
  layers: number;
  /** Number of the current step, for "2/5". */
  step: number;
  steps: number;
}

/** The configuration of a stage without a base. */
function emptyConfig(): ContainerConfig {
  return { Env: [`PATH=${DEFAULT_PATH}`], WorkingDir: "/" };
}

export function beginStage(
  stage: Stage,
  label: string,
  platform: Platform,
  global: GlobalScope,
  from: { image: ResolvedImage; vertex: Vertex } | { parent: StageState } | undefined,
): StageState {
  let config: ContainerConfig;
  let author: string | undefined;
  if (from === undefined) config = emptyConfig();
  else if ("parent" in from) {
    config = structuredClone(from.parent.config);
    author = from.parent.author;
  } else {
    const image: ImageConfig = from.image.config;
    config = structuredClone(image.config ?? {});
    author = image.author;
  }
  config.Env ??= [];
  const state: StageState = {
    stage,
    label,
    platform,
    root: "scratch",
    config,
    history: [],
    scope: new StageScope(global, config.Env),
    ownCommand: false,
    layers: 0,
    step: 0,
    steps: 0,
  };
  if (author !== undefined) state.author = author;
  if (from && "parent" in from) {
    state.root = from.parent.root;
    state.base = from.parent.base;
    state.layers = from.parent.layers;
    state.history = [...from.parent.history];
    state.scope.inherit(from.parent.scope);
  } else if (from) {
    state.root = from.vertex;
    state.base = from.image;
    state.layers = from.image.config.rootfs.diff_ids.length;
  }
  return state;
}

/** The shell that runs commands in shell form. */
export function shellOf(state: StageState): string[] {
  return state.config.Shell?.length ? state.config.Shell : [...DEFAULT_SHELL];
}

/** The path below the stage's WORKDIR, absolute and cleaned. A trailing slash (or ".") stays as "/". */
export function absolute(state: StageState, path: string): string {
  const folder = path.endsWith("/") || /(^|\/)\.{1,2}$/.test(path);
  const whole = posix.resolve("/", state.config.WorkingDir || "/", path);
  return folder && whole !== "/" ? `${whole}/` : whole;
}

/** `[build 2/5] RUN make`. */
export function stepName(state: StageState, text: string): string {
  state.step++;
  return `[${state.label} ${state.step}/${state.steps}] ${text}`;
}
