/** What is loaded as one tree, and what all files of a project share while they are loaded. */
import type { Files } from "./files.ts";
import type { Interpolator } from "./interpolate.ts";
import type { Document } from "./yaml/read.ts";
import type { Mapping } from "./yaml/tree.ts";

/** What all files of a project share. */
export interface Session {
  files: Files;
  warn: (text: string) => void;
  /** False: variables stay as they are written (`config --no-interpolate`). */
  interpolate: boolean;
  /** False: relative paths stay as they are written. */
  resolvePaths: boolean;
  home?: string;
  documents: Map<string, Document[]>;
  /** Files that services extend, by their path and where their paths begin. */
  bases: Map<string, Promise<Base>>;
}

/** A file that a service of another file extends. */
export interface Base {
  root: Mapping;
  cleared: string[][];
}

/** Files that are loaded together, and where they stand. */
export interface Unit {
  files: readonly string[];
  /** Where relative paths begin: absolute for the project, relative to the including file for an include. */
  directory: string;
  /** The same, absolute: where `extends` and `include` look for files. */
  folder: string;
  environment: ReadonlyMap<string, string>;
  interpolator: Interpolator;
}

/** How a file is read; that of an extended service is read less. */
export interface Reading {
  /** The files that include this one, outermost first. */
  included: readonly string[];
  whole: boolean;
}

/** {@linkcode Unit}'s files as one tree; `include` calls it again. */
export type LoadUnit = (
  unit: Unit,
  session: Session,
  included: readonly string[],
  resolve: boolean,
) => Promise<Mapping>;

/** Merges one file into `root`; `extends` calls it again. */
export type MergeFile = (
  file: string,
  root: Mapping,
  unit: Unit,
  session: Session,
  reading: Reading,
) => Promise<Base>;
