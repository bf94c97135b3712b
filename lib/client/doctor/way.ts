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

/** Milliseconds. A larger difference between the clocks makes tokens and certificates fail. */
const SKEW_MS = 30_000;
const CERTIFICATE_DAYS = 14;
const DAY_MS = 24 * 3_600_000;

const failed = (name: string, error: unknown): Check => ({
  name,
  outcome: "failed",
  detail: error instanceof Error ? error.message : String(error),
  ...(error instanceof SvcError && { help: error.help }),
});

/**
 * How far the server's clock is ahead of ours, in milliseconds, by its Date header. The server is taken to have
 * written the header in the middle of the call.
 */
export function skewOf(date: string | null, before: number, after: number): number | undefined {
  const there = date === null ? NaN : Date.parse(date);
  if (Number.isNaN(there)) return undefined;
  // The header has whole seconds: half a second more is the best guess.
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
    throw await explain() ??
      new SvcError("server_unreachable", `Cannot reach ${target.server}`, { cause });
  }
}

/** Days until a PEM certificate of the context's files expires. */
async function certificateCheck(field: string, path: string): Promise<Check> {
  const name = `certificate in tls.${field}`;
  try {
    const { X509Certificate } = await import("node:crypto");
    const { validTo, validFrom, subject } = new X509Certificate(await Deno.readTextFile(path));
    const what = `${path} (${subject.replaceAll("\n", ", ")})`;
    return validity(name, what, Date.parse(validFrom), Date.parse(validTo), "this machine's");
  } catch (error) {
    return failed(name, error);
  }
}

/** The check of the certificate that the server presents. */
async function serverCertificate(certificate: NonNullable<Way["certificate"]>): Promise<Check> {
  const name = "certificate of the server";
  try {
    const { name: common, from, to } = await certificate();
    return validity(name, common === undefined ? "it" : `CN=${common}`, from, to, "the server's");
  } catch (error) {
    return failed(name, error);
  }
}

function validity(
  name: string,
  what: string,
  from: number,
  to: number,
  clock: string,
): Check {
  const now = Date.now();
  const date = (time: number) => new Date(time).toISOString().slice(0, 10);
  const days = Math.floor((to - now) / DAY_MS);
  if (from > now) {
    return {
      name,
      outcome: "failed",
      detail: `${what} is not valid before ${date(from)}`,
      help: `set ${clock} clock`,
    };
  }
  if (days < 0) {
    return { name, outcome: "failed", detail: `${what} has ended ${date(to)}`, help: "renew it" };
  }
  const soon = days < CERTIFICATE_DAYS;
  return {
    name,
    outcome: soon ? "warning" : "ok",
    detail: `${what} ends in ${days} days`,
    ...(soon && { help: "renew it soon" }),
  };
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

/** Runs the checks in order; leaves out those that depend on one that failed. */
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
    if (way.certificate) checks.push(await serverCertificate(way.certificate));
  } catch (error) {
    return { checks: [...checks, failed("connection", error)] };
  }
  try {
    const info: Partial<ServerInfo> = await client.json("GET /info");
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
