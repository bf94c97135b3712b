/** Stands for files from outside in a plan that a Worker makes; the Worker fetches nothing. */
import { SvcError } from "../../base/errors.ts";
import type { GitSource } from "../context/git_url.ts";
import type { TreeSource } from "./graph.ts";

export type TreeSpec =
  | { kind: "git"; source: GitSource }
  | { kind: "http"; url: string; checksum?: string }
  /** A named context of the request. */
  | { kind: "named"; name: string };

/** A placeholder that the event loop replaces by the real tree ({@linkcode TreeSource}). */
export class PlannedTree implements TreeSource {
  constructor(readonly spec: TreeSpec) {}

  identity(): Promise<string | undefined> {
    throw new SvcError("internal", "Cannot read a tree: it is only planned");
  }

  open(): never {
    throw new SvcError("internal", "Cannot read a tree: it is only planned");
  }
}
