/** The image routes of the Docker Engine API. */
import { SvcError } from "../../base/errors.ts";
import type { Digest } from "../../oci/types.ts";
import { compareVersions, type DockerClient } from "../client.ts";
import { readProgress } from "../messages.ts";
import type { ImageApi } from "./api.ts";

interface ListedImage {
  Id: Digest;
  RepoTags?: string[] | null;
}

interface InspectedImage {
  Id: Digest;
  RootFS?: { Layers?: Digest[] | null };
}

interface DaemonInfo {
  DriverStatus?: [string, string][] | null;
}

/** The driver of docker's containerd image store, as the daemon names it. */
const CONTAINERD_DRIVER = "io.containerd.snapshotter.v1";

export function engineApi(client: DockerClient): ImageApi {
  return {
    async list(signal) {
      const images = await client.json<ListedImage[]>({
        path: "/images/json",
        // Those between the layers of others too: they may be read by their ids.
        query: { all: true },
        attempted: "Cannot list the engine's images",
        signal,
      });
      return images.map(({ Id, RepoTags }) => ({ id: Id, names: RepoTags ?? [] }));
    },

    async find(name, signal) {
      try {
        const { Id, RootFS } = await client.json<InspectedImage>({
          path: `/images/${name}/json`,
          attempted: `Cannot look for image ${name}`,
          signal,
        });
        return { id: Id, diffIDs: RootFS?.Layers ?? [] };
      } catch (error) {
        if (error instanceof SvcError && error.code === "not_found") return undefined;
        throw error;
      }
    },

    // docker 20.10 writes the whole image to its disk before it answers.
    export: (id, signal) =>
      client.stream({
        path: `/images/${id}/get`,
        headMs: Infinity,
        attempted: `Cannot export image ${id}`,
        signal,
      }),

    async load(archive, signal) {
      const attempted = "Cannot load the image into the engine";
      const body = await client.stream({
        path: "/images/load",
        query: { quiet: true },
        body: archive,
        headMs: Infinity,
        attempted,
        signal,
      });
      await readProgress(body, attempted);
    },

    async tag(id, name, signal) {
      const colon = name.lastIndexOf(":");
      await client.run({
        method: "POST",
        path: `/images/${id}/tag`,
        query: { repo: name.slice(0, colon), tag: name.slice(colon + 1) },
        attempted: `Cannot name image ${id} ${name}`,
        signal,
      });
    },

    async platform() {
      const { os, arch } = await client.daemon();
      return { os, architecture: arch };
    },

    // Docker 23 and later.
    takesZstd: async () => compareVersions((await client.daemon()).api, "1.42") >= 0,

    async keepsManifests(signal) {
      const { DriverStatus } = await client.json<DaemonInfo>({
        path: "/info",
        attempted: "Cannot ask the engine for its image store",
        signal,
      });
      return (DriverStatus ?? []).some(([, value]) => value === CONTAINERD_DRIVER);
    },
  };
}
