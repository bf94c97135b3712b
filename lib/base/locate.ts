/** Where programs are. */
import { run } from "./process.ts";

const FOLDERS = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/** Absolute path of a program, by PATH and then the usual folders. */
export async function locate(name: string): Promise<string | undefined> {
  const { stdout } = await run("sh", ["-c", 'command -v -- "$1"', "sh", name]);
  const path = stdout.trim();
  if (path.startsWith("/")) return path;
  for (const folder of FOLDERS) {
    const info = await Deno.stat(`${folder}/${name}`).catch(() => undefined);
    if (info?.isFile) return `${folder}/${name}`;
  }
  return undefined;
}
