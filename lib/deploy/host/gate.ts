/** The conditions under which a new instance may replace an old one. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { PublishedPort } from "../../api/deployment.ts";
import type { ContainerConfig } from "../../oci/types.ts";
import { listenedOn, type SocketPort } from "../../runtime/listening.ts";
import type { Instance } from "./instance.ts";

/**
 * The ports that a new instance has to listen on: declared ports on which an old instance answers now. A port
 * without an answer loses no request, so it is not waited for.
 */
export async function portsToTakeOver(
  old: readonly Instance[],
  { spec, ports, image }: { spec: DeploySpec; ports: PublishedPort[]; image: ContainerConfig },
): Promise<SocketPort[]> {
  const wanted: { now: SocketPort; then: SocketPort }[] = [];
  const want = (then: SocketPort, now = then) => wanted.push({ now, then });
  for (const port of ports) {
    const before = old.flatMap(({ made }) => made.ports).find((one) =>
      one.host === port.host && one.protocol === port.protocol
    );
    want(port, before);
  }
  const declared = [...Object.keys(image.ExposedPorts ?? {})].map((text): SocketPort => {
    const [port, protocol = "tcp"] = text.split("/");
    return { container: Number(port), protocol: protocol as SocketPort["protocol"] };
  });
  for (const port of [...spec.expose ?? [], ...declared]) want(port);
  if (spec.ingress?.port !== undefined && spec.ingress.enabled !== false) {
    const ingress = (of: DeploySpec) => of.ingress?.port ?? spec.ingress!.port!;
    const [before] = old;
    want(
      { container: ingress(spec), protocol: "tcp" },
      { container: ingress(before?.spec ?? spec), protocol: "tcp" },
    );
  }
  const answered = new Set<SocketPort>();
  for (const { made: { choice }, life: { run } } of old) {
    // On the host's own network a socket cannot be attributed to an instance.
    if (choice.kind === "host" || !run) continue;
    for (const port of await listenedOn(run.process.pid, wanted.map(({ now }) => now))) {
      answered.add(port);
    }
  }
  return wanted.filter(({ now }) => answered.has(now)).map(({ then }) => then);
}
