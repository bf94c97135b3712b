/** A server that does one thing with its backend, for crash_deploy.ts to kill meanwhile. */
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import { openBare } from "./bare_fixture.ts";
import { openContainerd } from "./containerd_fixture.ts";
import { endBefore } from "./crash_steps.ts";
import type { Act, EngineKind } from "./crash_deploy.ts";
import { openDockerhost } from "./dockerhost_fixture.ts";
import { openIncus } from "./incus_fixture.ts";
import { openPodman } from "./podman_fixture.ts";

// deno-lint-ignore no-explicit-any -- each opens what its fixture wrote down
const ENGINES: Record<EngineKind, (place: any) => Promise<DeployBackend>> = {
  bare: ({ host, config }) => openBare(host, config),
  containerd: openContainerd,
  dockerhost: openDockerhost,
  incus: openIncus,
  podman: openPodman,
};

function act(backend: DeployBackend, { kind, ...what }: Act): Promise<unknown> {
  if (kind === "apply") return backend.apply(what.spec!);
  return kind === "delete" ? backend.delete("web") : backend.power("web", kind);
}

const { engine, place, what, step } = JSON.parse(Deno.args[0]) as {
  engine: EngineKind;
  place: unknown;
  what: Act;
  step?: number;
};
if (step && what.again) endBefore(step);
const backend = await ENGINES[engine](place);
if (step && !what.again) endBefore(step);
await act(backend, what);
await backend[Symbol.asyncDispose]();
Deno.exit(0);
