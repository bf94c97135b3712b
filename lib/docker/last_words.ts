/** The end of what a container printed. */
import type { DockerClient } from "./client.ts";
import { readFrames } from "./frames.ts";

/** Lines and characters that an error quotes. */
const LINES = 5;
const CHARACTERS = 2000;

/** The last lines of a container's log; empty where it cannot be read. */
export async function lastWords(engine: DockerClient, id: string): Promise<string> {
  let text = "";
  try {
    const body = await engine.stream({
      path: `/containers/${id}/logs`,
      query: { stdout: true, stderr: true, tail: LINES },
      attempted: "Cannot read the container's log",
    });
    const decoder = new TextDecoder();
    for await (const frames of readFrames(body)) {
      for (const { bytes } of frames) text += decoder.decode(bytes, { stream: true });
    }
  } catch {
    // The error that quotes it is more important than why there is nothing to quote.
  }
  return text.trim().slice(-CHARACTERS);
}
