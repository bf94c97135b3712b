/** Bridges of container engines, known by the names that these give to them. */

/** How names of Docker, nerdctl, podman, LXD and Incus begin. */
const BEGINNINGS = ["docker", "br-", "nerdctl", "podman", "cni-podman", "lxdbr", "incusbr"];

/** Of svc on Incus. */
const OWN = /^svc[\da-f]{12}$/;

const ENGINES =
  /^(docker\d+|docker_gwbridge|br-[\da-f]{12}|(nerdctl|(cni-)?podman|lxdbr|incusbr)\d+)$/;

export const isEngineBridge = (name: string): boolean => ENGINES.test(name) || OWN.test(name);

/**
 * The bridges as iptables names them. "docker+" stands for those to come, too; where another interface of the host
 * begins like that (br-lan), for those that are there.
 */
export function engineBridges(interfaces: readonly string[]): string[] {
  const names = [...new Set(interfaces)];
  const known = BEGINNINGS.flatMap((beginning) => {
    const alike = names.filter((name) => name.startsWith(beginning));
    return alike.every(isEngineBridge) ? [`${beginning}+`] : alike.filter(isEngineBridge);
  });
  return [...known, ...names.filter((name) => OWN.test(name))];
}
