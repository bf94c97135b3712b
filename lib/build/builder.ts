/** The build interface: local engine and remote builder alike. Wire events are in lib/api/build.ts. */
import type { BuildEvent, BuildResult } from "../api/build.ts";

export interface BuildRequest {
  /** Image names to publish under; may be empty (build only). */
  tags: string[];
  /** Path of the Dockerfile within the context; default "Dockerfile". */
  dockerfile: string;
  target?: string;
  buildArgs: Record<string, string>;
  labels: Record<string, string>;
  noCache: boolean;
  /** "os/arch[/variant]"; default the host's. */
  platform?: string;
  /** The context as a tar archive: plain, gzip or zstd, told apart by its first bytes. */
  context: ReadableStream<Uint8Array>;
}

export interface BuildOptions {
  onEvent: (event: BuildEvent) => void;
  signal?: AbortSignal;
}

export interface Builder extends AsyncDisposable {
  /**
   * Builds and publishes. Throws `dockerfile_invalid`, `context_invalid`, `build_failed` (detail: line,
   * command, exitCode, output) or what storage threw; events tell the story until then.
   */
  build(request: BuildRequest, options: BuildOptions): Promise<BuildResult>;
}
