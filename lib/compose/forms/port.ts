/** The short form of a port: [[IP:]HOST:]CONTAINER[/PROTOCOL], with ranges. */
import { isIP } from "node:net";
import { Problem } from "../problem.ts";
import type { Path } from "../shape/shape.ts";
import { type Mapping, mapping } from "../yaml/tree.ts";

interface Range {
  first: number;
  last: number;
}

/** Ports that one short form may stand for. */
const PROTOCOLS = ["tcp", "udp", "sctp"];

function range(text: string, what: string, path: Path): Range {
  const match = /^(\d+)(?:-(\d+))?$/.exec(text);
  const [first, last] = [Number(match?.[1]), Number(match?.[2] ?? match?.[1])];
  if (!match || first > 65535 || last > 65535 || last < first) {
    throw new Problem(
      path,
      `${JSON.stringify(text)} is no ${what} (0 to 65535, or a range of them)`,
    );
  }
  return { first, last };
}

function address(text: string, path: Path): string {
  const ip = /^\[(.*)\]$/.exec(text)?.[1] ?? text;
  if (ip !== "" && !isIP(ip.split("%", 1)[0])) {
    throw new Problem(path, `${JSON.stringify(text)} is no IP address`);
  }
  return ip;
}

/** One long form for each container port, in the order of their text. Throws {@linkcode Problem}. */
export function parsePorts(spec: string, path: Path): Mapping[] {
  const parts = spec.split(":");
  const [container, host = ""] = parts.toReversed();
  const ip = address(parts.slice(0, -2).join(":"), path);
  const [ports, protocol = "tcp"] = container.split("/", 2);
  const slash = container.indexOf("/");
  const word = (slash < 0 ? "tcp" : container.slice(slash + 1) || "tcp").toLowerCase();
  if (ports === "") throw new Problem(path, `${JSON.stringify(spec)} has no port of the container`);
  const inside = range(ports, "port of the container", path);
  const outside = host === "" ? undefined : range(host, "port of the host", path);
  const width = inside.last - inside.first;
  if (outside && width > 0 && outside.last - outside.first !== width) {
    throw new Problem(path, `the ranges ${ports} and ${host} have different lengths`);
  }
  if (!PROTOCOLS.includes(word)) {
    throw new Problem(path, `${JSON.stringify(protocol)} is not one of ${PROTOCOLS.join(", ")}`);
  }
  const list: Mapping[] = [];
  for (let index = 0; index <= width; index++) {
    const published = outside &&
      (width === 0 && outside.last > outside.first
        ? `${outside.first}-${outside.last}`
        : String(outside.first + index));
    list.push(mapping({
      mode: "ingress",
      host_ip: ip || undefined,
      target: inside.first + index,
      published,
      protocol: word,
    }));
  }
  const key = (port: Mapping) => `${port.get("target")}/${word}`;
  return list.sort((a, b) => key(a) < key(b) ? -1 : 1);
}
