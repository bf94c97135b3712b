/** The roles of a caretaker. A role's code is loaded only where the document names it. */
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import { type CaretakerConfig, invalid } from "./config.ts";
import type { RoleModule, RoleRow, Settings } from "./role.ts";

export const ROLES = {
  portForward: {
    help: "Connections from the server to ports of the workload.",
    needsServer: true,
    load: () => import("./roles/port_forward.ts"),
  },
  agentRelay: {
    help: "Sockets in the workload that lead to a caller's SSH agent.",
    needsServer: true,
    load: () => import("./roles/agent_relay.ts"),
  },
  mount: {
    help: "Folders of a caller, mounted for the workload.",
    needsServer: true,
    load: () => import("./roles/mount.ts"),
  },
  egress: { help: "Where connections of the workload may go, and through whom." },
  credential: {
    help: "Credentials of a caller, as endpoints on the workload's loopback.",
    needsServer: true,
    load: () => import("./roles/credential.ts"),
  },
  dns: { help: "Names that the workload resolves." },
  hub: { help: "Services of other workloads, and those that this one offers." },
  docker: { help: "Docker's API, whose containers become deployments." },
  proxy: { help: "Requests to the workload, and those it may make." },
  telemetry: { help: "The workload's telemetry, to the server." },
} as const satisfies Record<string, RoleRow>;

export type RoleName = keyof typeof ROLES;

/** A role that the document names. */
export interface WantedRole {
  name: string;
  settings: Settings;
  load: () => Promise<RoleModule>;
}

/**
 * The roles that the document names. Throws `config_invalid` for one that nobody knows or that lacks the server,
 * and `not_in_build` for one that this build does not have: a caretaker never does less than it was asked for.
 */
export function wantedRoles({ roles, server }: CaretakerConfig): WantedRole[] {
  return Object.entries(roles).map(([name, settings]) => {
    const row: RoleRow | undefined = Object.hasOwn(ROLES, name)
      ? ROLES[name as RoleName]
      : undefined;
    if (!row) {
      const names = Object.keys(ROLES);
      throw invalid(
        "roles",
        `unknown role ${JSON.stringify(name)}${suggestion(name, names)}`,
        "run the caretaker from an image of the server's version: svc image agent",
      );
    }
    if (!row.load) {
      throw new SvcError(
        "not_in_build",
        `Cannot start the role ${name}: it is not in this build yet`,
      );
    }
    if (row.needsServer && !server) throw invalid("server", `the role ${name} needs it`);
    return { name, settings, load: row.load };
  });
}
