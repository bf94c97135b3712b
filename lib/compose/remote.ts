/** Files of other machines, which docker compose fetches and svc does not. */
import { Problem } from "./problem.ts";
import type { Path } from "./shape/shape.ts";

const REMOTE = /^(oci:\/\/|https?:\/\/|git:\/\/|ssh:\/\/|git@|github\.com\/)/;

/** Throws {@linkcode Problem}. */
export function refuseRemote(file: string, path: Path): void {
  if (!REMOTE.test(file)) return;
  throw new Problem(
    path,
    `${file} is on another machine, and is not fetched`,
    "fetch it before, and name the copy",
  );
}
