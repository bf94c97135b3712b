/** Header fields on their way through the proxy: which are dropped, and which the proxy sets itself. */
import type { Arrival } from "./interface.ts";

/** Names as the sender wrote them, in order. */
export type Fields = [name: string, value: string][];

/** Fields of one connection (RFC 9110 7.6.1). Framing is set anew on each side. */
const OF_CONNECTION = new Set([
  "connection",
  "content-length",
  "http2-settings",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** Fields that the proxy sets or drops. CGI programs would take `Proxy` for the variable HTTP_PROXY. */
const OURS = new Set(["expect", "forwarded", "host", "proxy", "x-real-ip"]);

export function valuesOf(fields: Fields, name: string): string[] {
  return fields.filter(([own]) => own.toLowerCase() === name).map(([, value]) => value);
}

/** Words of a list, in lower case: `Connection: close, Upgrade`. */
export function wordsOf(fields: Fields, name: string): Set<string> {
  const words = valuesOf(fields, name).flatMap((value) => value.toLowerCase().split(","));
  return new Set(words.map((word) => word.trim()).filter((word) => word !== ""));
}

/** The fields that are passed on, without those that `Connection` names. */
export function endToEnd(fields: Fields): Fields {
  const named = wordsOf(fields, "connection");
  return fields.filter(([name]) => {
    const lower = name.toLowerCase();
    return !OF_CONNECTION.has(lower) && !named.has(lower);
  });
}

/** The fields of the request to the workload, with the client's address. `host`: as the client wrote it. */
export function requestFields(fields: Fields, host: string, arrival: Arrival): Fields {
  const { scheme, remote, trusted = false } = arrival;
  const told = (name: string) => trusted ? valuesOf(fields, name) : [];
  const kept = endToEnd(fields).filter(([name]) => {
    // Some programs cannot tell "X_Forwarded_For" from "X-Forwarded-For".
    const plain = name.toLowerCase().replaceAll("_", "-");
    return !OURS.has(plain) && !OF_CONNECTION.has(plain) && !plain.startsWith("x-forwarded-");
  });
  const [proto] = told("x-forwarded-proto");
  const way = [...told("x-forwarded-for"), ...remote === undefined ? [] : [remote]];
  if (way.length > 0) kept.push(["X-Forwarded-For", way.join(", ")]);
  kept.push(["X-Forwarded-Proto", proto === "https" || proto === "http" ? proto : scheme]);
  kept.push(["X-Forwarded-Host", told("x-forwarded-host")[0] ?? host]);
  return kept;
}
