/** What tests of `svc build` share: contexts from a record of files, waiting, what a registry then has. */
import { dirname, join } from "node:path";
import { runTool, type Server } from "./harness.ts";

export type ContextFiles = Record<string, string | Uint8Array>;

export async function writeFiles(directory: string, files: ContextFiles): Promise<string> {
  for (const [path, content] of Object.entries(files)) {
    await Deno.mkdir(dirname(join(directory, path)), { recursive: true });
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    await Deno.writeFile(join(directory, path), bytes);
  }
  return directory;
}

/** Runs `work` on a folder of these files, which is gone afterwards. */
export async function withContext(
  files: ContextFiles,
  work: (directory: string) => Promise<void>,
): Promise<void> {
  const directory = await Deno.makeTempDir({ prefix: "svc-e2e-context-" });
  try {
    await work(await writeFiles(directory, files));
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** An image of the server, as another client sees it. */
export async function inspect(
  server: Server,
  name: string,
): Promise<{ Digest: string; Layers: string[] }> {
  const url = `docker://${server.host}/${name}`;
  return JSON.parse((await runTool("skopeo", ["inspect", "--tls-verify=false", url])).stdout);
}
