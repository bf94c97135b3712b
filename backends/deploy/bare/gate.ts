/** What a new instance has to do before it takes another's place. */
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import type { PublishedPort } from "../../../lib/api/deployment.ts";
import type { ContainerConfig } from "../../../lib/oci/types.ts";
import { listenedOn, type SocketPort } from "../../../lib/runtime/listening.ts";
import type { Instance } from "./instance.ts";

/**
 * The ports it has to listen on: those that are declared, and that an old instance answers on now. A port
 * on which nobody answers loses no request, so nobody waits for it.
 */
export async function portsToTakeOver(
  old: readonly Instance[],
  { spec, ports, image }: { spec: DeploySpec; ports: PublishedPort[]; image: ContainerConfig },
): Promise<SocketPort[]> {
  const wanted: { now: SocketPort; then: SocketPort }[] = [];
  const want = (then: SocketPort, now = then) => wanted.push({ now, then });
  for (const port of ports) {
    const before = old.flatMap(({ record }) => record.ports).find((one) =>
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
  for (const { record: { choice, process } } of old) {
    // On the host's own network the sockets are everybody's.
    if (choice.kind === "host" || !process) continue;
    for (const port of await listenedOn(process.pid, wanted.map(({ now }) => now))) {
      answered.add(port);
    }
  }
  return wanted.filter(({ now }) => answered.has(now)).map(({ then }) => then);
}
