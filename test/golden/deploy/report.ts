/** A probe's text as rows that can be compared: what differs by nature from run to run is blanked. */
import type { Case, Outcome } from "./case.ts";
import { nameOf } from "./case.ts";

export type Report = Record<string, string>;

interface Around {
  test: Case;
  host: Record<string, string>;
  /** The container's own, where the text has no section of it. */
  hostname?: string;
  /** The same engine's plain deployment: limits and settings that come from the host are told by it. */
  plain?: Report;
}

function sections(text: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  let lines: string[] = [];
  for (const line of text.replaceAll("\r", "").split("\n")) {
    const name = /^@@ (.*)$/.exec(line)?.[1];
    if (name !== undefined) found.set(name, lines = []);
    else lines.push(line);
  }
  for (const rows of found.values()) while (rows.at(-1) === "") rows.pop();
  return found;
}

const KINDS = /^(tmpfs|proc|sysfs|mqueue|devpts|cgroup2?|devtmpfs)$/;
const OPTIONS = /^(ro|rw|nosuid|nodev|noexec)$/;

/** Target → type and options that matter; the root's file system and a bind's are the host's affair. */
function mounts(rows: string[]): Report {
  const report: Report = {};
  for (const row of rows) {
    const [before, after] = row.split(" - ");
    const [, , , , target, options, ...optional] = before.split(" ");
    const [type, , superOptions = ""] = after.split(" ");
    if (/^\/sys\/fs\/cgroup\/./.test(target)) continue;
    const kept = options.split(",").filter((option) => OPTIONS.test(option)).sort();
    const shared = optional.some((field) => field.startsWith("shared:")) ? " shared" : "";
    const limits = superOptions.split(",").filter((option) => /^(size|mode|uid|gid)=/.test(option))
      // Half of the host's memory, where the mount is the host's own.
      .map((option) => option.replace(/^size=\d{7,}k$/, "size={host}"));
    // What masks a file or a folder: which device or empty file does it is the runtime's affair.
    const kind = KINDS.test(type) ? type : target === "/" ? "root" : "bind";
    const inner = type === "tmpfs" && limits.length > 0 ? ` ${limits.sort().join(",")}` : "";
    report[`mount.${target}`] = `${kind} ${kept.join(",")}${inner}${shared}`;
  }
  return report;
}

function devices(rows: string[]): Report {
  const report: Report = {};
  for (const row of rows) {
    const match =
      /^(\S+)\s+\d+ (\d+)\s+(\d+)\s+(\d+,\s*\d+|\d+) \w+\s+\d+\s+\S+ (\S+)(?: -> (\S+))?$/
        .exec(row);
    if (!match) continue;
    const [, mode, uid, gid, size, path, link] = match;
    // The device mapper's, which the host has from its first use on.
    if (path === "mapper") continue;
    const detail = /^[bc]/.test(mode) ? ` ${size.replaceAll(/\s/g, "")}` : link ? ` ${link}` : "";
    report[`dev.${path}`] = `${mode} ${uid}:${gid}${detail}`;
  }
  return report;
}

const LARGEST = /\b(92233720368547\d+|18446744073\d+)\b/g;

/** Rows "NAME VALUE…": the same name again adds to it. */
function pairs(prefix: string, rows: string[]): Report {
  const report: Report = {};
  for (const row of rows) {
    const [name, ...rest] = row.split(/\s+/);
    const key = `${prefix}.${name}`;
    const value = rest.join(" ").replaceAll(LARGEST, "max");
    report[key] = key in report ? `${report[key]}; ${value}` : value;
  }
  return report;
}

function limits(rows: string[]): Report {
  return Object.fromEntries(
    rows.slice(1).flatMap((row) => {
      const match = /^(Max .*?)\s{2,}(\S+)\s+(\S+)/.exec(row);
      return match ? [[`limit.${match[1]}`, `${match[2]} ${match[3]}`]] : [];
    }),
  );
}

function addresses(rows: string[], blank: (text: string) => string): Report {
  const report: Report = {};
  for (const row of rows) {
    const address = /^\d+: (\w+)\S*\s+inet (\S+)/.exec(row);
    if (address) report[`net.${address[1]}`] = blank(address[2].split("/")[0]);
    else if (row.startsWith("default via")) {
      report["net.default"] = row.split(" dev ")[1].split(" ")[0];
    }
  }
  return report;
}

/** Name → addresses. The rows of other cases, which run at the same time, are left out. */
function hosts(lines: string[]): Report {
  const report: Report = {};
  for (const line of lines.filter((line) => !line.startsWith("#"))) {
    const [address, ...names] = line.trim().split(/\s+/);
    if (names.some((name) => /^(golden-|\{name\})/.test(name))) continue;
    for (const name of names) {
      const key = `host.${name}`;
      report[key] = key in report ? `${report[key]} ${address}` : address;
    }
  }
  return report;
}

/** Rows of resolv.conf that the settings ask for: the others are the host's, or the engine's own resolver. */
function resolvers(lines: string[], { spec = {} }: Case): string[] {
  return lines.filter((line) =>
    line.startsWith("nameserver ") && spec.dnsServers ||
    line.startsWith("search ") && spec.dnsSearch ||
    line.startsWith("options ") && spec.dnsOptions
  );
}

/** Rows of /proc/PID/limits. */
const LIMITS: Record<string, string> = {
  as: "Max address space",
  core: "Max core file size",
  cpu: "Max cpu time",
  data: "Max data size",
  fsize: "Max file size",
  memlock: "Max locked memory",
  msgqueue: "Max msgqueue size",
  nofile: "Max open files",
  nproc: "Max processes",
  rttime: "Max realtime timeout",
  sigpending: "Max pending signals",
  stack: "Max stack size",
};

/** Settings that the engine takes from its host, unless the case asks for them. */
function fromHost(key: string, { spec = {} }: Case): boolean {
  if (key.startsWith("limit.")) {
    return !spec.ulimits?.some(({ name }) => key === `limit.${LIMITS[name]}`);
  }
  return key.startsWith("sysctl.") &&
    !(key.slice("sysctl.".length).replaceAll("/", ".") in (spec.sysctls ?? {}));
}

/** All sections of one report. */
function rowsOf(text: string, around: Around): Report {
  const { test, host, plain } = around;
  const found = sections(text);
  const rows = (name: string) => found.get(name) ?? [];
  const own = /inet (\d+\.\d+\.\d+\.\d+)\/\d+ .* eth0/.exec(rows("net").join("\n"))?.[1];
  const gateway = /default via (\S+)/.exec(rows("net").join("\n"))?.[1];
  const hostname = rows("hostname")[0] ?? around.hostname;
  const blank = (line: string) => {
    let result = line;
    const whole = (address: string) =>
      new RegExp(`(?<![\\d.])${RegExp.escape(address)}(?![\\d.])`, "g");
    if (own) result = result.replaceAll(whole(own), "{ip}");
    if (gateway) result = result.replaceAll(whole(gateway), "{gateway}");
    if (hostname && !test.spec?.hostname) result = result.replaceAll(hostname, "{hostname}");
    return result.replaceAll(nameOf(test), "{name}");
  };
  const report: Report = {};
  rows("argv").forEach((value, at) => report[`argv.${at}`] = value);
  for (const entry of rows("env")) {
    const [name] = entry.split("=", 1);
    report[`env.${name}`] = blank(entry.slice(name.length + 1));
  }
  for (const name of ["cwd", "oom", "umask", "hostname", "domainname"]) {
    if (found.has(name)) report[name] = rows(name).map(blank).join("\n");
  }
  for (const row of rows("status")) {
    const [name, value] = row.split(":");
    const words = value.trim().split(/\s+/).filter(Boolean);
    const sorted = name === "Groups" ? words.sort((a, b) => Number(a) - Number(b)) : words;
    report[`status.${name}`] = sorted.join(" ");
  }
  for (const row of rows("fds").filter((row) => /^\d /.test(row))) {
    report[`fd.${row[0]}`] = row.slice(2).replace(/:\[\d+\]/, "");
  }
  if (found.has("pid")) {
    const [self, first] = rows("pid");
    const shared = Number(self) >= 50;
    report.pid = self === "1" ? "1" : shared ? "the host's" : `below ${first?.split(" ")[0]}`;
  }
  for (const [name, lines] of found) {
    if (!name.startsWith("file:")) continue;
    if (name === "file:/etc/hosts") {
      Object.assign(report, hosts(lines.map(blank)));
      continue;
    }
    const told = name === "file:/etc/resolv.conf" ? resolvers(lines, test) : lines;
    told.forEach((line, at) => report[`${name.slice(5)}.${at}`] = blank(line));
  }
  for (const row of rows("ns")) {
    const [name, id] = row.split(" ");
    report[`ns.${name}`] = host[name] === id ? "the host's" : "own";
  }
  Object.assign(report, mounts(rows("mounts")), devices(rows("dev")), limits(rows("limits")));
  Object.assign(report, pairs("cgroup", rows("cgroup")), pairs("sysctl", rows("sysctl")));
  Object.assign(report, addresses(rows("net"), blank), pairs("masked", rows("masked")));
  for (const row of rows("tree")) {
    const space = row.indexOf(" ");
    report[`tree.${row.slice(0, space)}`] = row.slice(space + 1);
  }
  Object.assign(report, pairs("write", rows("write")), pairs("call", rows("calls")));
  if (found.has("signal")) report.signal = rows("signal").join(" ");
  for (const key of Object.keys(report)) {
    if (plain && plain[key] === report[key] && fromHost(key, test)) delete report[key];
  }
  return report;
}

/** Everything that came of a case, as one flat record. */
export function reportOf(outcome: Outcome, around: Around): Report {
  if (outcome.fails !== undefined) return { fails: "yes" };
  const text = outcome.report ?? "";
  const report = rowsOf(text, around);
  const hostname = sections(text).get("hostname")?.[0];
  const add = (prefix: string, text: string) => {
    for (const [key, value] of Object.entries(rowsOf(text, { ...around, hostname }))) {
      report[`${prefix}.${key}`] = value;
    }
  };
  if (outcome.exec !== undefined) add("exec", outcome.exec);
  if (outcome.again !== undefined) add("again", outcome.again);
  if (outcome.exit !== undefined) report.exit = String(outcome.exit);
  return report;
}

/** What a record keeps of a case: how it differs from the plain deployment. `null`: not there. */
export type Difference = Record<string, string | null>;

export function differ(from: Report, to: Report): Difference {
  const keys = new Set([...Object.keys(from), ...Object.keys(to)]);
  return Object.fromEntries(
    [...keys].sort().filter((key) => from[key] !== to[key]).map((key) => [key, to[key] ?? null]),
  );
}

export function apply(base: Report, difference: Difference): Report {
  const report = { ...base };
  for (const [key, value] of Object.entries(difference)) {
    if (value === null) delete report[key];
    else report[key] = value;
  }
  return report;
}
