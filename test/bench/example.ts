/** The example that benches build and deploy. */
import { join } from "node:path";

const ROOT = join(import.meta.dirname!, "../..");

/** Built from busybox:1; listens on port 8080. */
export const EXAMPLE = join(ROOT, "examples/hello");

/** Makes the build context of the example's base image, busybox:1, below `dir`. */
export async function busyboxFolder(dir: string): Promise<string> {
  const folder = join(dir, "busybox");
  await Deno.mkdir(folder, { recursive: true });
  await Deno.copyFile(join(ROOT, "examples/busybox/Dockerfile"), join(folder, "Dockerfile"));
  await Deno.copyFile("/bin/busybox", join(folder, "busybox"));
  return folder;
}
