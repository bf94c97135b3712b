/** What a build worker gives: where steps run, and where their snapshots are. */
import type { Snapshotter } from "../snapshot/snapshotter.ts";
import type { Executor } from "./executor.ts";

export interface BuildWorker extends AsyncDisposable {
  executor: Executor;
  /** Absent: the worker's steps run on the server's own snapshots. */
  snapshotter?: Snapshotter;
}
