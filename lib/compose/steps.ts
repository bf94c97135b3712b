/** What is told of the work on a project, in docker compose's words. */

export interface Step {
  /** "Container shop-web-1", "Network shop_default", "Volume shop_data". */
  id: string;
  /** The step that it is a part of. */
  parent?: string;
  /** A word before the status: "Pulling" of an image. */
  text?: string;
  /** "Creating", "Created", "Healthy". */
  status: string;
  /** Bytes of a part that have arrived, and of the whole. */
  current?: number;
  total?: number;
  /** Absent: the step goes on. */
  end?: "done" | "warning" | "error";
}

export type Report = (step: Step) => void;

export const working = (report: Report, id: string, status: string) => report({ id, status });
export const done = (report: Report, id: string, status: string) =>
  report({ id, status, end: "done" });

/** Tells that the work on these ended in an error, and throws it on. */
export function failing(report: Report, ids: readonly string[]) {
  return (error: unknown): never => {
    for (const id of ids) report({ id, status: "Error", end: "error" });
    throw error;
  };
}
