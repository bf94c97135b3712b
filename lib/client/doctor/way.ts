/** The way from this client to its server, step by step. */
import type { ServerInfo } from "../../api/info.ts";
import { SvcError } from "../../base/errors.ts";
import type { Client } from "../client.ts";
import type { Target } from "../resolve.ts";
import type { Way } from "../transport/open.ts";

export interface Check {
  name: string;
  outcome: "ok" | "warning" | "failed";
  detail: string;
  help?: string;
}

/** Clocks that differ by more make tokens and certificates fail. */
const SKEW_MS = 30_000;
const CERTIFICATE_DAYS = 14;
const DAY_MS = 24 * 3_600_000;

const failed = (name: string, error: unknown): Check => ({
  name,
  outcome: "failed",
  detail: error instanceof Error ? error.message : String(error),
  ...(error instanceof SvcError && { help: error.help }),
});

/** How far the server's clock is from ours, by its Date header; the middle of the call is when it was written. */
export function skewOf(date: string | null, before: number, after: number): number | undefined {
  const there = date === null ? NaN : Date.parse(date);
  if (Number.isNaN(there)) return undefined;
  // The header has whole seconds: half of one is the best guess.
  return there + 500 - (before + after) / 2;
}

async function reach(
  { base, http }: Way,
  target: Target,
  explain: Way["explain"],
  signal: AbortSignal,
) {
  const before = Date.now();
  try {
    const response = await fetch(`${base}/healthz`, { client: http, signal, redirect: "error" });
    const after = Date.now();
    await response.body?.cancel();
    return { response, before, after };
  } catch (cause) {
    signal.throwIfAborted();
    throw explain() ??
      new SvcError("server_unreachable", `Cannot reach ${target.server}`, { cause });
  }
}

/** Days until a PEM certificate ends, for those of the context's files. */
async function certificateCheck(field: string, path: string): Promise<Check> {
  const name = `certificate in tls.${field}`;
  try {
    const { X509Certificate } = await import("node:crypto");
    const { validTo, validFrom, subject } = new X509Certificate(await Deno.readTextFile(path));
    const now = Date.now();
    const days = Math.floor((Date.parse(validTo) - now) / DAY_MS);
    const who = subject.replaceAll("\n", ", ");
    if (Date.parse(validFrom) > now) {
      return {
        name,
        outcome: "failed",
        detail: `${path} (${who}) is not valid before ${validFrom}`,
        help: "set this machine's clock",
      };
    }
    if (days < 0) {
      return {
        name,
        outcome: "failed",
        detail: `${path} (${who}) has ended ${validTo}`,
        help: "renew it",
      };
    }
    const soon = days < CERTIFICATE_DAYS;
    return {
      name,
      outcome: soon ? "warning" : "ok",
      detail: `${path} (${who}) ends in ${days} days`,
      ...(soon && { help: "renew it soon" }),
    };
  } catch (error) {
    return failed(name, error);
  }
}

function transportText({ transport, server }: Target): string {
  switch (transport.kind) {
    case "ssh":
      return `through SSH (${transport.settings.addr})`;
    case "kube":
      return `through the cluster (service ${transport.settings.service})`;
    case "direct":
      return server.startsWith("https:") ? "directly, with TLS" : "directly, without TLS";
  }
}

export interface WayInput {
  target: Target;
  way: Way;
  client: Client;
  signal: AbortSignal;
}

export interface WayResult {
  checks: Check[];
  info?: Partial<ServerInfo>;
}

/** Every check that can be made; what needs an earlier one that failed is left out. */
export async function checkWay({ target, way, client, signal }: WayInput): Promise<WayResult> {
  const checks: Check[] = [{
    name: "server",
    outcome: "ok",
    detail: `${target.server} (${target.source}), ${transportText(target)}`,
  }];
  for (const field of ["ca-cert", "client-cert"] as const) {
    const path = target.tls?.[field];
    if (path !== undefined) checks.push(await certificateCheck(field, path));
  }
  if (target.tls?.["insecure-skip-verify"]) {
    checks.push({
      name: "TLS",
      outcome: "warning",
      detail: "the server's certificate is not verified",
      help: "name its CA in tls.ca-cert and unset tls.insecure-skip-verify",
    });
  }
  try {
    const { response, before, after } = await reach(way, target, way.explain, signal);
    checks.push(
      response.ok
        ? { name: "connection", outcome: "ok", detail: `it answers in ${after - before} ms` }
        : {
          name: "connection",
          outcome: "failed",
          detail: `it answered ${response.status}, not as svc does`,
          help: "check the URL",
        },
    );
    const skew = skewOf(response.headers.get("date"), before, after);
    if (skew !== undefined) checks.push(clockCheck(skew));
  } catch (error) {
    return { checks: [...checks, failed("connection", error)] };
  }
  try {
    const info = await client.json<Partial<ServerInfo>>("GET", "/info");
    const who = info.identity?.subject || "anonymous";
    const scopes = info.identity?.scopes?.join(" ") || "none";
    checks.push({
      name: "credential",
      outcome: "ok",
      detail: `the server knows you as ${who} (scopes: ${scopes})`,
    });
    return { checks, info };
  } catch (error) {
    return { checks: [...checks, failed("credential", error)] };
  }
}

export function clockCheck(skewMs: number): Check {
  const seconds = Math.round(Math.abs(skewMs) / 1000);
  if (Math.abs(skewMs) <= SKEW_MS) {
    return { name: "clocks", outcome: "ok", detail: `they differ by ${seconds} s` };
  }
  return {
    name: "clocks",
    outcome: "failed",
    detail: `the server's is ${seconds} s ${skewMs > 0 ? "ahead of" : "behind"} this machine's`,
    help: "set both by NTP: tokens and certificates end at the wrong time",
  };
}
