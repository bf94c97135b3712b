/** `/_ping`, `/version`, `/info`, `/auth`. */
import { buildInfo } from "../../base/build_info.ts";
import { OWN_NAME } from "../../docker/client.ts";
import type { DockerApi } from "../api.ts";
import type { Answer, Call } from "../request.ts";
import type { ApiRoute } from "../route.ts";
import { auth } from "./auth.ts";
import { df, info } from "./info.ts";
import { MAX_VERSION, MIN_VERSION } from "../versions.ts";

/** Deno's name of the processor, as Go has it. */
const ARCHITECTURES: Record<string, string> = { x86_64: "amd64", aarch64: "arm64" };
const architecture = () => ARCHITECTURES[Deno.build.arch] ?? Deno.build.arch;

const PING = {
  "content-type": "text/plain; charset=utf-8",
  "cache-control": "no-cache, no-store, must-revalidate",
  pragma: "no-cache",
  // Clients choose their builder by it: 2 is BuildKit, whose session this API speaks.
  "builder-version": "2",
  swarm: "inactive",
};

const ping = (): Promise<Answer> => Promise.resolve({ headers: PING, text: "OK" });

async function version(call: Call, api: DockerApi): Promise<Answer> {
  const { version, commit = "unknown" } = buildInfo();
  const server = await api.client(call.signal).json("GET /info").catch(() => undefined);
  const details = { ApiVersion: MAX_VERSION, MinAPIVersion: MIN_VERSION, Os: "linux" };
  return {
    json: {
      Platform: { Name: "svc" },
      // Its name tells other programs, and svc's own dockerhost backend, whose API it is.
      Components: [
        { Name: OWN_NAME, Version: version, Details: { ...details, GitCommit: commit } },
        ...server ? [{ Name: "svc-server", Version: server.version, Details: {} }] : [],
      ],
      Version: version,
      ...details,
      GitCommit: commit,
      GoVersion: "none",
      Arch: architecture(),
      KernelVersion: "",
      BuildTime: "",
    },
  };
}

export const SYSTEM_ROUTES: readonly ApiRoute[] = [
  { method: "GET", path: "/_ping", handler: ping },
  { method: "HEAD", path: "/_ping", handler: ping },
  { method: "GET", path: "/version", handler: version },
  { method: "GET", path: "/info", handler: info },
  { method: "GET", path: "/system/df", handler: df },
  { method: "POST", path: "/auth", handler: auth },
];
