/** Backends by engines of their own, with the images of the cases. */
import { join } from "node:path";
import { createDockerhostBackend } from "../../../backends/deploy/dockerhost/open.ts";
import { silent } from "../../../lib/base/log.ts";
import { PRIVILEGED_KINDS } from "../../../lib/deploy/privileges.ts";
import { dockerEndpoint } from "../../../lib/docker/endpoint.ts";
import { containerdFixture, openContainerd } from "../../contract/containerd_fixture.ts";
import { dockerhostFixture } from "../../contract/dockerhost_fixture.ts";
import type { ContainerdOptions } from "../../peers/containerd.ts";
import type { DockerdOptions } from "../../peers/dockerd.ts";
import { layoutImages } from "../../peers/layout_images.ts";
import { backendRunner } from "./backend.ts";
import { CASES } from "./cases.ts";
import type { Runner } from "./case.ts";
import { writeImages } from "./images.ts";
import { runTool } from "../../e2e/harness.ts";
import { ownNamespaces } from "./suite.ts";

type Work = (runner: Runner) => Promise<void>;

const images = async (layout: string) => {
  await writeImages(layout, CASES, (tag) => ({ "org.opencontainers.image.ref.name": tag }));
  return layoutImages(layout);
};

/** Everything is permitted, and there is no limit of processes, as docker has none. */
const config = { allowBindSources: [], allowPrivileged: PRIVILEGED_KINDS, pidsLimit: 0 };

/** Those of the daemon, which has some of its own. */
async function namespacesInside(
  { inside }: { inside(...command: string[]): string[] },
): Promise<Record<string, string>> {
  const [command, ...args] = inside("sh", "-c", "cd /proc/1/ns && readlink *");
  const { stdout } = await runTool(command, args);
  return Object.fromEntries(stdout.trim().split("\n").map((link) => [link.split(":")[0], link]));
}

export async function withContainerd(options: ContainerdOptions, work: Work): Promise<void> {
  await using fixture = await containerdFixture(options);
  await images(join(fixture.dataDir, "layout"));
  await using backend = await openContainerd(fixture.place, { ...config, startMs: 60_000 });
  await work(backendRunner(backend, await ownNamespaces()));
}

export async function withDocker(options: DockerdOptions, work: Work): Promise<void> {
  const init = { "init-path": "/usr/bin/tini-static" };
  await using fixture = await dockerhostFixture({ ...options, config: init });
  const { dataDir, layout, host } = fixture.place;
  await using backend = await createDockerhostBackend({
    dataDir,
    endpoint: dockerEndpoint({ host }),
    images: await images(layout),
    config,
    log: silent,
  });
  await work(backendRunner(backend, await namespacesInside(fixture.daemon)));
}
