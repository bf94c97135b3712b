import { join } from "node:path";
import { createBareBackend } from "../../backends/deploy/bare/backend.ts";
import { silent } from "../../lib/base/log.ts";
import { run } from "../../lib/base/process.ts";
import { BridgeRules } from "../../lib/runtime/bridge_rules.ts";
import { bridgeNetwork } from "../../lib/runtime/network.ts";
import { createSnapshotter } from "../../lib/snapshot/create.ts";
import { unpackImage } from "../../lib/snapshot/unpack.ts";
import { freeSubnetBase, requireTools } from "../e2e/harness.ts";
import { writeBaseLayout } from "../peers/base_image.ts";
import { removeServerData } from "../peers/cleanup.ts";
import { layoutImages } from "../peers/layout_images.ts";
import { bareDetails, type BareUnderTest } from "./bare_backend.ts";
import { bareEdges } from "./bare_edges.ts";
import { bareUntrusted } from "./bare_untrusted.ts";
import { bareSettings } from "./bare_settings.ts";
import { deployBackendContract, type DeployBackendUnderTest } from "./deploy_backend.ts";
import { deployPrivileges } from "./deploy_privileges.ts";
import { deployDetails } from "./deploy_details.ts";

const { ignore } = requireTools({
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox"],
});

Deno.test({
  name: "deploy backend contract: bare",
  ignore,
  // The snapshotter's workers and pidless watchers live as long as the process.
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    const dataDir = await Deno.makeTempDir({ prefix: "svc-bare-" });
    const subnet = freeSubnetBase();
    const allowed = join(dataDir, "allowed");
    try {
      await Deno.mkdir(allowed);
      await writeBaseLayout(join(dataDir, "layout"), "base", {
        layers: [{ "var/state/seed": "from the image" }],
        volumes: ["/var/state"],
      });
      const log = silent;
      const root = join(dataDir, "build/snapshots");
      let permitted: readonly string[] = [];
      const open = () =>
        createBareBackend({
          dataDir,
          config: {
            runtime: "runc",
            systemdCgroup: false,
            cniBinDir: "/opt/cni/bin",
            cniSubnetBase: subnet,
            dns: true,
            allowBindSources: [allowed],
            allowPrivileged: permitted,
            pidsLimit: 99,
            startMs: 5_000,
            takeOverMs: 6000,
            runDir: join(dataDir, "run"),
          },
          snapshotter: () => createSnapshotter({ root, driver: "auto", log }),
          images: layoutImages(join(dataDir, "layout")),
          unpack: (snapshotter, image, { signal }) => unpackImage(snapshotter, image, { signal }),
          log,
        });
      let backend = await open();
      const under: DeployBackendUnderTest = {
        backend: () => backend,
        reopen: async (between, next = []) => {
          permitted = next;
          await backend[Symbol.asyncDispose]();
          await between?.();
          backend = await open();
        },
        image: "base",
      };
      const tests: [string, () => Promise<void>][] = [];
      deployBackendContract((title, fn) => tests.push([title, fn]), under);
      deployPrivileges((title, fn) => tests.push([title, fn]), under);
      deployDetails((title, fn) => tests.push([title, fn]), under);
      const bare: BareUnderTest = {
        ...under,
        dataDir,
        allowed,
        subnetBase: subnet,
        userBridges: [1, 2].map((index) => bridgeNetwork(subnet, index).bridge),
      };
      bareSettings((title, fn) => tests.push([title, fn]), bare);
      bareEdges((title, fn) => tests.push([title, fn]), bare);
      bareUntrusted((title, fn) => tests.push([title, fn]), bare);
      // Looks at the end for what is left of all of them.
      bareDetails((title, fn) => tests.push([title, fn]), bare);
      for (const [title, fn] of tests) await t.step(title, fn);
      await backend[Symbol.asyncDispose]();
    } finally {
      await removeServerData(dataDir);
      for (const index of [0, 1, 2]) {
        const network = bridgeNetwork(subnet, index);
        await run("ip", ["link", "delete", network.bridge]);
        await new BridgeRules().remove(network);
      }
    }
  },
});
