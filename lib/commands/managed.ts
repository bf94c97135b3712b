/** `svc volume ls|inspect|rm` and `svc network ls|inspect|rm`. */
import { formatBytes } from "../base/bytes.ts";
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import { formatAge, renderTable } from "../base/table.ts";
import type { NetworkStatus, VolumeStatus } from "../api/workload.ts";
import {
  inspectManaged,
  listManaged,
  type ManagedKind,
  type ManagedStatus,
  removeManaged,
} from "../client/workloads.ts";
import type { CommandModule, Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import { renderFacts } from "./facts.ts";
import { forEachName, removeEach } from "./power.ts";
import { type MANAGED_OPTIONS, MANAGED_VERBS } from "./workload_options.ts";

type Call = Invocation<typeof MANAGED_OPTIONS>;

const size = ({ size }: VolumeStatus) => size === undefined ? "" : formatBytes(size);
const age = ({ createdAt }: VolumeStatus, now: number) =>
  createdAt ? formatAge(now - Date.parse(createdAt)) : "";

/** How each kind is shown: as a row of the list, and by itself. */
const SHOWN = {
  volumes: {
    word: "volume",
    headers: ["NAME", "DRIVER", "SIZE", "USED BY", "AGE"],
    row: (status: ManagedStatus, now: number) => {
      const volume = status as VolumeStatus;
      return [volume.name, volume.driver, size(volume), volume.usedBy.join(", "), age(volume, now)];
    },
    facts: (status: ManagedStatus, now: number): [string, string][] => {
      const volume = status as VolumeStatus;
      return [["Size", size(volume)], ["Age", age(volume, now)]];
    },
  },
  networks: {
    word: "network",
    headers: ["NAME", "DRIVER", "SUBNET", "USED BY", "INTERNAL"],
    row: (status: ManagedStatus) => {
      const { name, driver, subnet, usedBy, internal } = status as NetworkStatus;
      return [name, driver, subnet ?? "", usedBy.join(", "), internal ? "yes" : "no"];
    },
    facts: (status: ManagedStatus): [string, string][] => {
      const { subnet, gateway, subnet6, gateway6, internal } = status as NetworkStatus;
      const six: [string, string][] = subnet6
        ? [["Subnet (IPv6)", subnet6], ["Gateway (IPv6)", gateway6 ?? ""]]
        : [];
      return [["Subnet", subnet ?? ""], ["Gateway", gateway ?? ""], ...six, [
        "Internal",
        internal ? "yes" : "no",
      ]];
    },
  },
} as const;

async function list(invocation: Call, kind: ManagedKind): Promise<number> {
  const { io, values } = invocation;
  const found = await listManaged(await connect(invocation), kind);
  const { headers, row } = SHOWN[kind];
  const lines = (of: (status: ManagedStatus) => string) =>
    found.map((status) => `${of(status)}\n`).join("");
  const now = Date.now();
  await io.stdout.write(
    values.output === "json"
      ? lines((status) => JSON.stringify(status))
      : values.quiet
      ? lines(({ name }) => name)
      : renderTable(headers, found.map((status) => row(status, now))),
  );
  return 0;
}

function factsOf(status: ManagedStatus, kind: ManagedKind): string {
  return renderFacts([
    ["Name", status.name],
    ["Driver", status.driver],
    ...SHOWN[kind].facts(status, Date.now()),
    ["Used by", status.usedBy.join(", ")],
    ["Labels", Object.entries(status.labels).map((pair) => pair.join("=")).join("\n")],
  ]);
}

async function inspect(invocation: Call, kind: ManagedKind, names: string[]): Promise<number> {
  const client = await connect(invocation);
  const { values } = invocation;
  return await forEachName(invocation, names, {
    act: (name) => inspectManaged(client, kind, name),
    show: (_, status) =>
      values.output === "json" ? JSON.stringify(status) + "\n" : factsOf(status, kind),
  });
}

async function remove(invocation: Call, kind: ManagedKind, names: string[]): Promise<number> {
  const client = await connect(invocation);
  return await removeEach(invocation, names, (name) => removeManaged(client, kind, name));
}

function commandOf(kind: ManagedKind): CommandModule<typeof MANAGED_OPTIONS> {
  const { word } = SHOWN[kind];
  const usage = (what: string) =>
    new SvcError("usage", `Cannot run ${word} ${what}`, { help: `see \`svc ${word} --help\`` });
  return {
    run(invocation) {
      const [verb, ...names] = invocation.positionals;
      if (verb === "ls") {
        if (names.length > 0) throw usage(`ls: ${names[0]} is one argument too many`);
        return list(invocation, kind);
      }
      if (verb !== "inspect" && verb !== "rm") {
        const known = MANAGED_VERBS.join(", ");
        throw usage(`${verb}: it is none of ${known}${suggestion(verb, MANAGED_VERBS)}`);
      }
      if (names.length === 0) throw usage(`${verb}: NAME is missing`);
      return (verb === "rm" ? remove : inspect)(invocation, kind, names);
    },
  };
}

export const volume = commandOf("volumes");
export const network = commandOf("networks");
