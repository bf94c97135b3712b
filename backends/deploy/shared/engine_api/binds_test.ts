import assert from "node:assert/strict";
import { join } from "node:path";
import type { DeploySpec } from "../../../../lib/api/deploy_spec.ts";
import { validateDeploySpec } from "../../../../lib/api/deploy_spec_parse.ts";
import { HostPaths } from "../../../../lib/docker/own_container.ts";
import { silent } from "../../../../lib/base/log.ts";
import { scriptedDaemon } from "../../../../lib/docker/testing.ts";
import type { ImageResolver } from "../../../../lib/oci/resolver.ts";
import { Applier } from "./apply.ts";
import type { Deployment } from "./deployment.ts";
import { dockerEngine } from "./docker_engine.ts";
import { engineFields } from "./fields.ts";
import { type BindPolicy, Binds, requirePlainMounts } from "./binds.ts";
import type { Inspected } from "./inspect.ts";
import { attachedLabel } from "./labels.ts";

const mounting = (name: string, source: string, readOnly = false) =>
  validateDeploySpec({ name, image: "i", mounts: [{ source, target: "/mnt", readOnly }] });

const bindsOf = (policy: BindPolicy, specs: DeploySpec[] = [], containers: Inspected[] = []) =>
  new Binds({
    specs: () => specs,
    containers: () => containers,
    policy: () => Promise.resolve(policy),
  });

async function sourcesOf(binds: Binds, spec: DeploySpec): Promise<readonly string[]> {
  using held = await binds.hold(spec);
  return held.sources;
}

/** A container as Docker tells it, and as podman does. */
const containers = (name: string, Source: string, RW = true) => {
  const Config = { Labels: { "svc.deployment": name }, Tty: false };
  const one = { Config, HostConfig: { NetworkMode: "" }, Mounts: [{ Type: "bind", Source, RW }] };
  const Mounts = [{ Type: "bind", Source, ReadOnly: !RW }];
  const other = { Config, HostConfig: { NetworkMode: "", Mounts }, Mounts: [] };
  return [one, other] as unknown as Inspected[];
};

Deno.test({
  name:
    "a contained server: sources are the host's paths, and the policy holds where it sees them elsewhere",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const root = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-engine-binds-" }));
    try {
      await Deno.mkdir(join(root, "data/x"), { recursive: true });
      await Deno.symlink("/etc", join(root, "data/out"));
      await Deno.symlink("x", join(root, "data/in"));
      const paths = new HostPaths([], [{ here: join(root, "data"), host: "/srv/data" }], true);
      const sources = (allowed: string[], source: string, others = [] as [string, string][]) =>
        sourcesOf(
          bindsOf({ allowed, paths }, others.map(([name, source]) => mounting(name, source))),
          mounting("app", source),
        );
      for (const allowed of ["/srv", "/srv/data", "/srv/data/x"]) {
        assert.deepEqual(await sources([allowed], "/srv/data/x"), ["/srv/data/x"], allowed);
      }
      assert.deepEqual(await sources(["/srv"], "/srv/data/in"), ["/srv/data/x"]);
      const refused = async (allowed: string[], source: string, code = "denied") => {
        await assert.rejects(sources(allowed, source), { code });
      };
      await refused(["/srv"], "/srv/data/out");
      await refused([], "/srv/data/x");
      await refused(["/srv/data/in"], "/srv/data/x/../../data");
      await refused(["/srv"], "/srv/data/none", "not_found");
      // Its own name of the folder is another folder on the host.
      await refused([root], join(root, "data/x"));
      // What it does not see: exactly what is allowed.
      await refused(["/opt"], "/opt/x");
      assert.deepEqual(await sources(["/opt/x"], "/opt/x"), ["/opt/x"]);
      await assert.rejects(sources(["/srv"], "/srv/data/x", [["other", "/srv/data"]]), {
        code: "conflict",
      });
    } finally {
      await Deno.remove(root, { recursive: true });
    }
  },
});

Deno.test({
  name: "a folder that is replaced by a link while it is checked: what was checked is mounted",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const root = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-engine-binds-" }));
    const source = join(root, "data/x");
    const { realPath, readLink } = Deno;
    let looks = 0;
    const swap = async () => {
      await Deno.rename(source, join(root, "data/moved"));
      await Deno.symlink(join(root, "secret"), source);
    };
    try {
      await Deno.mkdir(source, { recursive: true });
      await Deno.mkdir(join(root, "secret"));
      // After the check, at the next question where the source is.
      Deno.realPath = async (path) => {
        if (path === source && ++looks === 2) await swap();
        return await realPath(path);
      };
      Deno.readLink = async (path) => {
        await swap();
        return await readLink(path);
      };
      const allowed = [join(root, "data")];
      const policy = { allowed, paths: new HostPaths([], [], false) };
      const sources = await sourcesOf(bindsOf(policy), mounting("app", source));
      assert.deepEqual(sources, [join(root, "data/moved")]);
    } finally {
      Object.assign(Deno, { realPath, readLink });
      await Deno.remove(root, { recursive: true });
    }
  },
});

Deno.test("a path that could be read as options of a mount is refused, with its field", () => {
  const check = (source: string, target: string, volume = "/v", real = source) => () =>
    requirePlainMounts(
      validateDeploySpec({
        ...{ name: "app", image: "i", mounts: [{ source, target }] },
        volumes: [{ name: "v", target: volume }],
      }),
      [real],
    );
  check("/srv/a b=c:d", "/mnt/a b=c", "/v'x")();
  const refused = (field: string) => ({
    code: "spec_invalid",
    message: new RegExp(`\\(${field.replace(/[[\]]/g, "\\$&")}\\)`),
  });
  for (const bad of ["/a,bind-propagation=shared", '/a"b']) {
    assert.throws(check(bad, "/mnt"), refused("mounts[0].source"));
    assert.throws(check("/srv", bad), refused("mounts[0].target"));
    assert.throws(check("/srv", "/mnt", bad), refused("volumes[0].target"));
  }
  for (const bad of ["/a,b", '/a"b', "/a\nb", "/a\rb"]) {
    assert.throws(check("/link", "/mnt", "/v", bad), refused("mounts[0].source"));
  }
});

Deno.test("an apply refuses such a path before it asks the engine for anything", async () => {
  await using daemon = await scriptedDaemon((call) => call.json({}));
  const { client } = daemon;
  const behaviour = { name: "engine", product: "the engine", logDriver: () => undefined };
  const server = "0123456789abcdef";
  const config = { allowBindSources: [], allowPrivileged: [], pidsLimit: 0 };
  const applier = new Applier({
    ...{ server, config, fields: engineFields("engine"), specs: () => [] },
    engine: dockerEngine({ client, behaviour, server, config, folder: "/nowhere", log: silent }),
  });
  const spec = validateDeploySpec({
    name: "app",
    image: "i",
    volumes: [{ name: "v", target: "/v,type=bind,source=/etc" }],
  });
  const images = {} as ImageResolver;
  const applying = applier.apply({} as Deployment, spec, {
    ...{
      images,
      env: {},
      attached: [],
      onProgress: () => {},
      until: "ready",
      recreate: false,
      beside: false,
      walled: false,
    } as const,
  });
  await assert.rejects(applying, { code: "spec_invalid" });
  assert.deepEqual(daemon.lines, []);
});

// Of an engine elsewhere: exactly what is allowed.
const FAR = { allowed: ["/srv", "/srv/b", "/srv/c"] };
const CONFLICT = { code: "conflict", message: /could replace/ };

Deno.test("a container that is there may not write above a new source, not even the deployment's own", async () => {
  for (const name of ["app", "other"]) {
    for (const there of containers(name, "/srv")) {
      const binds = bindsOf(FAR, [], [there]);
      await assert.rejects(sourcesOf(binds, mounting("app", "/srv/b")), CONFLICT);
      assert.deepEqual(await sourcesOf(binds, mounting("app", "/srv")), ["/srv"]);
    }
    for (const there of containers(name, "/srv/b", false)) {
      await assert.rejects(
        sourcesOf(bindsOf(FAR, [], [there]), mounting("app", "/srv")),
        CONFLICT,
      );
    }
    const harmless = [...containers(name, "/srv", false), ...containers(name, "/srv/c")];
    assert.deepEqual(await sourcesOf(bindsOf(FAR, [], harmless), mounting("app", "/srv/b")), [
      "/srv/b",
    ]);
  }
});

Deno.test("of two applies at once that are in each other's way, one is refused", async () => {
  const binds = bindsOf(FAR);
  const both = await Promise.allSettled([
    binds.hold(mounting("app", "/srv/b")),
    binds.hold(mounting("other", "/srv")),
  ]);
  const refused = both.flatMap((one) => one.status === "rejected" ? one.reason : []);
  assert.equal(refused.length, 1);
  assert.equal(refused[0].code, "conflict");
  for (const one of both) if (one.status === "fulfilled") one.value[Symbol.dispose]();
  assert.deepEqual(await sourcesOf(binds, mounting("other", "/srv")), ["/srv"]);
  assert.deepEqual(await sourcesOf(binds, mounting("app", "/srv/b")), ["/srv/b"]);
});

Deno.test({
  name: "before its container is made or started a source has to be allowed, and lead where it led",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const root = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-engine-binds-" }));
    const [first, second, link] = ["first", "second", "link"].map((name) => join(root, name));
    try {
      await Promise.all([Deno.mkdir(first), Deno.mkdir(second), Deno.symlink(first, link)]);
      const policy = { allowed: [root], paths: new HostPaths([], [], false) };
      const there: Inspected[] = [];
      const binds = bindsOf(policy, [], there);
      const spec = mounting("app", link);
      await binds.recheck(spec, [first]);
      await assert.rejects(binds.recheck(spec, [second]), { code: "conflict", message: /by now/ });
      there.push(...containers("other", root));
      await assert.rejects(binds.recheck(spec, [first]), CONFLICT);
      there.length = 0;

      await binds.requireStill(spec, containers("app", first));
      await binds.requireStill(spec, containers("app", second));
      for (const elsewhere of [link.replace("link", "none"), "/etc"]) {
        await assert.rejects(binds.requireStill(spec, containers("app", elsewhere)), {
          code: elsewhere === "/etc" ? "denied" : "not_found",
        });
      }
      // A file of the server's own, and what else the same container mounts.
      const own = containers("app", "/run/own");
      for (const { Config } of own) {
        Object.assign(Config.Labels!, attachedLabel([{ source: "/run/own" }]));
      }
      await binds.requireStill(spec, own);
      const more = [...own, ...containers("app", "/etc")];
      await assert.rejects(binds.requireStill(spec, more), { code: "denied" });
      await Deno.remove(second);
      await Deno.symlink(first, second);
      await assert.rejects(binds.requireStill(spec, containers("app", second)), { code: "denied" });
      policy.allowed = [second];
      await assert.rejects(binds.requireStill(spec, []), { code: "denied" });
    } finally {
      await Deno.remove(root, { recursive: true });
    }
  },
});
