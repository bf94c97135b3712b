/** Images as docker's API shows them. */
import type { HistoryEntry } from "../../oci/types.ts";
import { isAtLeast } from "../versions.ts";
import { createdOf, digestsOf, type StoredImage, tagsOf } from "./store.ts";

const NONE = "<none>:<none>";

/** Before API 1.43 an image without names has one that says so. */
const shownTags = (image: StoredImage, version: string): string[] => {
  const tags = tagsOf(image);
  return tags.length > 0 || isAtLeast(version, "1.43") ? tags : [NONE];
};

/** Sizes are those of the layers as they are stored. */
const sizes = (size: number, version: string) => ({
  Size: size,
  ...!isAtLeast(version, "1.44") && { VirtualSize: size },
});

/** A row of `GET /images/json`. */
export function summary(image: StoredImage, version: string) {
  return {
    Id: image.id,
    ParentId: "",
    RepoTags: shownTags(image, version),
    RepoDigests: digestsOf(image),
    Created: createdOf(image.config),
    ...sizes(image.size, version),
    SharedSize: -1,
    Labels: image.config.config?.Labels ?? {},
    Containers: -1,
  };
}

/** `GET /images/{name}/json`. */
export function details(image: StoredImage, version: string) {
  const { config } = image;
  const { os, architecture, variant } = config;
  return {
    Id: image.id,
    RepoTags: tagsOf(image),
    RepoDigests: digestsOf(image),
    Parent: "",
    Comment: config.history?.findLast(({ comment }) => comment)?.comment ?? "",
    Created: config.created ?? "0001-01-01T00:00:00Z",
    DockerVersion: "",
    Author: config.author ?? "",
    Config: config.config ?? {},
    Architecture: architecture,
    ...(variant !== undefined && { Variant: variant }),
    Os: os,
    ...sizes(image.size, version),
    GraphDriver: { Name: "svc", Data: null },
    RootFS: { Type: "layers", Layers: config.rootfs.diff_ids },
    Metadata: { LastTagTime: "0001-01-01T00:00:00Z" },
  };
}

/** `GET /images/{name}/history`: the last step first; sizes are those of the layers as they are stored. */
export function history(image: StoredImage) {
  const steps: HistoryEntry[] = image.config.history ?? image.manifest.layers.map(() => ({}));
  const layers = [...image.manifest.layers];
  const rows = steps.map((step) => ({
    Id: "<missing>",
    Created: step.created === undefined ? 0 : Math.floor(Date.parse(step.created) / 1000),
    CreatedBy: step.created_by ?? "",
    Tags: null as string[] | null,
    Size: step.empty_layer ? 0 : layers.shift()?.size ?? 0,
    Comment: step.comment ?? "",
  })).reverse();
  if (rows.length > 0) Object.assign(rows[0], { Id: image.id, Tags: tagsOf(image) });
  return rows;
}
