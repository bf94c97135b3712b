/** Labels of containers in containerd, where `ctr` and other clients show and filter them. */

/** Bytes of a key and its value together that containerd takes. */
const LONGEST = 4096;

/**
 * Labels that other programs act on, containerd's own foremost: its restart monitor runs the program that
 * `containerd.io/restart.loguri` names, as root.
 */
const FOREIGN =
  /(^|\.)(containerd|kubernetes|k8s|cncf)\.io\/|^(io\.cri-containerd|nerdctl|svc|buildkit)[./]/;

const isTaken = ([key, value]: [string, string]) =>
  key !== "" && value !== "" && !FOREIGN.test(key) &&
  new TextEncoder().encode(key + value).length <= LONGEST;

/** A deployment's labels, as far as its container may have them. */
export const containerLabels = (
  { deployment, replica, ofSpec = {} }: {
    deployment: string;
    replica: number;
    ofSpec?: Readonly<Record<string, string>>;
  },
): Record<string, string> => ({
  ...Object.fromEntries(Object.entries(ofSpec).filter(isTaken)),
  "svc.deployment": deployment,
  "svc.replica": String(replica),
});
