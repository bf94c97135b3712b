/** The parts of a server that are about its images: storage, other registries, what is under /v2/. */
import { join } from "node:path";
import { buildInfo } from "../base/build_info.ts";
import { lazy } from "../base/lazy.ts";
import { AUTH } from "../config/server/auth.ts";
import { ADVERTISED, LISTENER, PROCESS } from "../config/server/general.ts";
import { REGISTRY, REMOTES } from "../config/server/registry.ts";
import { registryIn } from "../registry/engine_view.ts";
import { createContentStore } from "../store/content.ts";
import { GIVEN } from "./given.ts";
import { createOutside } from "./outside.ts";
import { OwnAddress } from "./own_address.ts";
import {
  modeOf,
  resolverOptions,
  ServerRegistry,
  warnOfAnonymous,
  warnOfHidden,
} from "./registry.ts";
import { subsystem } from "./subsystem.ts";

const { settings, env, log, host, chosen } = GIVEN;

export const mode = subsystem({
  name: "mode",
  needs: { chosen, settings, log },
  open({ chosen, settings, log }) {
    const mode = modeOf(chosen, settings.of(REGISTRY, PROCESS));
    warnOfAnonymous(mode, settings.of(AUTH).registryAnonymousPull, log);
    return mode;
  },
});

export const storage = subsystem({
  name: "storage",
  needs: { chosen, env, settings, host, mode, log },
  async open({ chosen, env, settings, host, mode, log }) {
    const { shown, open, openEmpty } = chosen.storage;
    await warnOfHidden(mode, host.dataDir, log);
    const objects = await (mode === "host-native" ? openEmpty() : open(env));
    if (settings.of(REGISTRY).registryRedirect && !objects.signedUrl) {
      log.warn("blobs are not redirected: this storage has no addresses", { storage: shown });
    }
    return { objects, content: createContentStore(objects, { log }) };
  },
  close: ({ content }) => content[Symbol.asyncDispose](),
});

export const address = subsystem({
  name: "address",
  needs: { settings },
  open: ({ settings }) => new OwnAddress(settings.of(LISTENER).addr),
});

export const outside = subsystem({
  name: "outside",
  needs: { settings, env, log },
  open: ({ settings, env, log }) =>
    createOutside({
      advertise: settings.of(ADVERTISED).advertiseRegistry,
      dockerConfig: join(env.DOCKER_CONFIG ?? join(env.HOME ?? "/root", ".docker"), "config.json"),
      insecure: settings.of(REMOTES).insecureRegistries,
      userAgent: `svc/${buildInfo().version}`,
      log,
    }),
});

export const mirror = subsystem({
  name: "mirror",
  needs: { settings, storage, outside, address, host, log },
  async open({ settings, storage, outside, address, host, log }) {
    const { registryMirror: upstreams, registryMirrorCache: cache } = settings.of(REGISTRY);
    if (upstreams === undefined) return undefined;
    const { openServerMirror } = await import("./mirror.ts");
    return await openServerMirror({
      upstreams,
      cache,
      store: storage.content,
      objects: storage.objects,
      spool: join(host.dataDir, "mirror"),
      isOwn: outside.isOwn(address.asked),
      remote: outside.remote,
      log,
    });
  },
});

/** This server in the names of images; what docker would not read as a registry is none. */
function ownHost(advertised: string | undefined, port: number): string {
  const named = advertised !== undefined && registryIn(`${advertised}/name`) === advertised;
  return named ? advertised : `localhost:${port}`;
}

export const registry = subsystem({
  name: "registry",
  needs: { chosen, mode, storage, mirror, outside, address },
  open: ({ chosen, mode, storage, mirror, outside, address }) =>
    new ServerRegistry({
      mode,
      store: mirror ?? storage.content,
      isOwn: (host) => outside.isOwn(address.bound)(host),
      ownHost: () => ownHost(outside.advertised, address.bound.port),
      takesPushes: chosen.deploy.takesPushes,
    }),
});

export const images = subsystem({
  name: "images",
  needs: { registry, outside, address },
  open: ({ registry, outside, address }) =>
    lazy(async () => {
      const { createImageResolver } = await import("./images.ts");
      return createImageResolver(resolverOptions(registry.local, outside, address.bound));
    }),
});
