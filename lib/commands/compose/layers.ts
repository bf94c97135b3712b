/** The layers of an image that is pulled, told as parts of the pull. */
import type { Report } from "../../compose/steps.ts";
import { quietReporter, type Reporter, shortDigest } from "../transfer/events.ts";
import { type Descriptor, MEDIA } from "../../oci/types.ts";

/** `parent`: the step of the pull. */
export function layersReporter(parent: string, report: Report): Reporter {
  const tell = ({ digest, size: total, mediaType }: Descriptor, text: string, current = 0) => {
    if (mediaType === MEDIA.config || mediaType === MEDIA.dockerConfig) return;
    const end = current === total ? "done" as const : undefined;
    const id = shortDigest(digest).replace(/^.*:/, "");
    report({ id, parent, text, status: "", current, total, ...(end && { end }) });
  };
  return {
    ...quietReporter(),
    plan: ({ blobs }) => blobs.forEach((blob) => tell(blob, "Pulling fs layer", -1)),
    progress: (blob, bytes) => {
      if (bytes < blob.size) tell(blob, "Downloading", bytes);
    },
    done: (blob, outcome) =>
      tell(blob, outcome === "copied" ? "Pull complete" : "Already exists", blob.size),
  };
}
