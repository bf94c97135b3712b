/** `deploy` of a service, and what it shares with `gpus`. */
import { count, duration, list, pairs, set, single, size, strings, struct, text } from "./shape.ts";

/** A device that a service asks for: a GPU, mostly. */
export const device = struct({
  capabilities: set(),
  driver: text(),
  count: count({ takes: ["text", "integer"], result: "devices" }),
  device_ids: set(),
  options: pairs("labels", { merge: undefined, identity: undefined }),
});

const changes = struct({
  parallelism: count({ result: "number" }),
  delay: duration({ result: "delay" }),
  failure_action: text(),
  monitor: duration({ result: "delay" }),
  max_failure_ratio: single(),
  order: text({ words: ["start-first", "stop-first"] }),
});

const limits = struct({ cpus: single(), memory: size({ takes: ["text"] }), pids: count() });

const reservations = struct({
  cpus: single(),
  memory: size({ takes: ["text"] }),
  devices: list({ ...device, required: ["capabilities"] }),
  generic_resources: list(struct({
    discrete_resource_spec: struct({
      kind: text({ kept: true }),
      value: count({ takes: ["number", "text"], kept: true }),
    }),
  })),
});

/** `deploy` of a service. */
export const deploy = struct({
  mode: text(),
  replicas: count({ result: "number" }),
  labels: pairs("labels"),
  update_config: changes,
  rollback_config: changes,
  resources: struct({ limits, reservations }, { inline: true, always: "struct" }),
  restart_policy: struct({
    condition: text(),
    delay: duration(),
    max_attempts: count({ result: "number" }),
    window: duration(),
  }),
  placement: struct({
    constraints: strings(),
    preferences: list(struct({ spread: text() })),
    max_replicas_per_node: count(),
  }, { inline: true, always: "struct" }),
  endpoint_mode: text(),
}, { takes: ["mapping", "nothing"] });
