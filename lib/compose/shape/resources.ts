/** The top level of a Compose file, and what stands there besides services. */
import { SERVICES } from "./service.ts";
import {
  count,
  flag,
  list,
  map,
  needed,
  options,
  pairs,
  type Shape,
  strings,
  struct,
  text,
  textOrSet,
} from "./shape.ts";

const external = flag({ takes: ["boolean", "text", "mapping"], fields: { name: text() } });
/** Of the engine: PROJECT_KEY unless given. */
const name = needed(text());

const nothingOr = { takes: ["mapping", "nothing"], form: "external" } as const;
const driverOptions = options(["text", "number"]);
/** Lists of labels are appended, and the later of two with one name counts. */
const labels = pairs("labels");
const plainLabels = pairs("labels", { merge: undefined, identity: undefined });

export const NETWORK = struct({
  name,
  driver: text(),
  driver_opts: driverOptions,
  ipam: struct({
    driver: text(),
    config: list(
      struct({
        subnet: text(),
        gateway: text(),
        ip_range: text(),
        aux_addresses: options(["text"]),
      }),
      { merge: "ipam" },
    ),
    options: options(["text"], { result: "none" }),
  }, { inline: true, always: "struct" }),
  external,
  internal: flag(),
  attachable: flag(),
  labels,
  enable_ipv4: flag({ result: "switch" }),
  enable_ipv6: flag({ result: "switch" }),
}, nothingOr);

export const VOLUME = struct({
  name,
  driver: text(),
  driver_opts: driverOptions,
  external,
  labels,
}, { ...nothingOr, path: "driver" });

export const SECRET = struct({
  name,
  file: text({ path: "unix" }),
  environment: text(),
  external,
  labels: plainLabels,
  driver: text(),
  driver_opts: driverOptions,
  template_driver: text(),
}, { form: "external" });

export const CONFIG = struct({
  name,
  file: text({ path: "unix" }),
  environment: text(),
  content: text(),
  external,
  labels: plainLabels,
  template_driver: text(),
}, { form: "external" });

export const MODEL = struct({
  name: text(),
  model: text(),
  context_size: count({ takes: ["integer"] }),
  runtime_flags: strings(),
}, { required: ["model"] });

const INCLUDE = struct({
  path: textOrSet(),
  env_file: textOrSet(),
  project_directory: text(),
}, { takes: ["mapping", "text"], extensible: false, form: "include" });

export const FILE: Shape = struct({
  version: text({ result: "raw" }),
  name: text(),
  include: list(INCLUDE, { result: "raw" }),
  services: { ...SERVICES, kept: true },
  networks: map(NETWORK),
  volumes: map(VOLUME),
  secrets: map(SECRET),
  configs: map(CONFIG),
  models: map(MODEL),
});
