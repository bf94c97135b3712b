/**
 * Labels that other programs of an engine's host act on. Many of them hold the engine's socket, and do what a label
 * says: lead hosts' names to the workload, update it, run commands, give somebody rights to it. Which programs are
 * there nobody can know: these are the ones that are known to read labels of any container.
 */
const PREFIXES = [
  // Kept by docker, podman, containerd and kubelets for themselves: compose removes what carries its own.
  ...["com.docker.", "io.docker.", "org.dockerproject.", "io.containers.", "io.podman."],
  ...["podman_systemd_unit", "containerd.io/", "io.containerd.", "nerdctl/", "io.cri-containerd."],
  ...["io.kubernetes.", "io.rancher.", "io.portainer."],
  // Proxies and tunnels: they publish what a label says.
  ...["traefik.", "caddy", "com.github.nginx-proxy.", "com.github.jrcs.", "interlock."],
  ...["easyhaproxy.", "swag", "tsdproxy.", "dockflare.", "cloudflare."],
  // Updaters, starters and stoppers.
  ...[
    "com.centurylinklabs.watchtower",
    "wud.",
    "ouroboros.",
    "autoheal",
    "sablier.",
    "lazytainer.",
  ],
  // Programs that run commands and copies.
  ...["ofelia.", "swarm.cronjob.", "chadburn.", "docker-volume-backup.", "deck-chores."],
  // Agents that run checks from labels.
  ...["com.datadoghq.", "co.elastic."],
];

/** Without regard to case: some of the programs have none. */
export function isActedOn(label: string): boolean {
  const name = label.toLowerCase();
  return PREFIXES.some((prefix) => name.startsWith(prefix));
}
