import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { createLogger } from "../../base/log.ts";
import type { BackendModule } from "../../deploy/module.ts";
import { dockerEndpoint } from "../../docker/endpoint.ts";
import { type OpenBuilderOptions, openEngineBuilder } from "./open.ts";

const log = createLogger({ level: "error", format: "json", write: () => {} });

/** A backend that is never opened. */
const backend = (engine?: string): BackendModule => ({
  takesOver: false,
  open: () => assert.fail("opened"),
  ...engine !== undefined && {
    engine: {
      product: "the engine",
      endpoint: () => dockerEndpoint({ host: engine }),
      variables: (socket) => ({ ENGINE: socket }),
    },
  },
});

const open = (options: Partial<OpenBuilderOptions>) =>
  openEngineBuilder({
    settings: { builderAuto: true } as OpenBuilderOptions["settings"],
    env: {},
    folders: { dataDir: "/nowhere", runDir: "/nowhere" },
    registry: { mode: "store", host: () => "localhost:5000" },
    backend: { name: "engine" },
    log,
    ...options,
  });

const native = { mode: "host-native", host: () => "localhost:5000" } as const;

Deno.test("a builder is refused where it could not put images that the server's registry shows", () => {
  assert.throws(
    () => open({ registry: native, backend: { name: "engine", module: backend() } }),
    (error) =>
      error instanceof SvcError && error.code === "unsupported" &&
      /the registry shows the images of engine/.test(error.message) &&
      error.help.includes("SVC_REGISTRY_SOURCE=off"),
  );
  // It can push to a registry of its own, and where the engine can be shared.
  open({ backend: { name: "engine", module: backend() } });
  open({ registry: native, backend: { name: "engine", module: backend("unix:///x.sock") } });
});

Deno.test("a builder is made on this host, by the backend's engine before the one of DOCKER_HOST", () => {
  const elsewhere = "tcp://10.0.0.1:2375";
  const refused = (options: Partial<OpenBuilderOptions>) =>
    assert.throws(
      () => open(options),
      (error) =>
        error instanceof SvcError && error.code === "prerequisite_missing" &&
        error.message.includes(`${elsewhere} is not on this host`),
    );
  refused({ env: { DOCKER_HOST: elsewhere } });
  refused({ backend: { name: "engine", module: backend(elsewhere) } });
  const module = backend("unix:///x.sock");
  open({ env: { DOCKER_HOST: elsewhere }, backend: { name: "engine", module } });
});
