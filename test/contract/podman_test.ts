/**
 * The contract of deploy backends, by podman: the whole of it with 4.3 as root. With the others those parts that
 * podman's version, its user or the way to it could change; what svc decides by itself is the same with each
 * (or the whole with each of them, by each way: see transports.ts).
 */
import assert from "node:assert/strict";
import { requireTools } from "../e2e/harness.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { PODMAN_COMMANDS, PODMAN_FILES } from "../peers/podman.ts";
import { eventually } from "../waits.ts";
import { deployAttach } from "./deploy_attach.ts";
import { deployBackendContract } from "./deploy_backend.ts";
import { deployCrowd, madeBy } from "./crowd.ts";
import { deployDetails } from "./deploy_details.ts";
import { deployEvents } from "./deploy_events.ts";
import { deployExec } from "./deploy_exec.ts";
import { deployFiles } from "./deploy_files.ts";
import { deploySignals } from "./deploy_signals.ts";
import { deployImages } from "./deploy_images.ts";
import { deployContract, type DeploySuite } from "./deploy_suite.ts";
import { quickSpec } from "./deploy_tools.ts";
import { engineBackend } from "./engine_backend.ts";
import { engineDies } from "./engine_dies.ts";
import { engineFaults } from "./engine_faults.ts";
import { podmanFiles } from "./podman_files.ts";
import { type PodmanFixture, podmanFixture, type PodmanFixtureOptions } from "./podman_fixture.ts";
import { ALL_TRANSPORTS, FAR } from "./transports.ts";

/** Podman 5 and users have control groups of the second version alone. */
const controllers = ["", "/unified"].map((folder) => {
  try {
    return Deno.readTextFileSync(`/sys/fs/cgroup${folder}/cgroup.controllers`);
  } catch {
    return ""; // no control groups of the second version there
  }
}).join(" ").split(/\s+/);
const FEW = "this host has memory, pids or cpu in the first version of control groups alone";
const few = !["memory", "pids", "cpu"].every((name) => controllers.includes(name));
const LIMITS = few ? { groups: FEW } : {};
const ROOTLESS = few
  ? {
    ...LIMITS,
    pause: `pauses need control groups of the user's, and ${FEW}`,
    "processes.host":
      `without them podman cannot stop what has the host's processes: it is refused, and ${FEW}`,
  }
  : {};

interface Podman extends Pick<DeploySuite<PodmanFixture>, "name" | "way" | "parts" | "lacks"> {
  options: PodmanFixtureOptions;
}

/** What processes, streams and times are like. */
const RUNS = [deployBackendContract, deployExec, deployDetails];

const PODMANS: Podman[] = [
  { name: "podman 4.3", options: {} },
  {
    name: "podman 5",
    way: "by tcp",
    lacks: LIMITS,
    parts: [...RUNS, deployEvents, deployAttach, deployFiles, deploySignals, deployImages],
    options: { version: "5", by: "tcp" },
  },
  {
    name: "podman 4.3, rootless",
    way: "by ssh",
    lacks: ROOTLESS,
    parts: RUNS,
    options: { rootless: true, by: "ssh" },
  },
  {
    name: "podman 5, rootless",
    lacks: ROOTLESS,
    parts: [...RUNS, deployEvents, deployFiles, deploySignals],
    options: { version: "5", rootless: true },
  },
];

const WAYS = ["unix", "tcp", "ssh"] as const;

/** All of the contract with every podman by every way. */
const EVERY: Podman[] = PODMANS.flatMap(({ name, lacks, options }) =>
  WAYS.map((by) => ({
    name,
    lacks: { ...lacks, ...by === "unix" ? {} : FAR },
    way: `by ${by}`,
    options: { ...options, by },
  }))
);

/** On another host a container's address is nobody's, or somebody else's. */
const addresses: DeploySuite<PodmanFixture>["own"] = (test, { backend, image }, { outside }) => {
  test("a container's address is dialled on podman's host alone, and refused by name elsewhere", async () => {
    const name = "addressed";
    try {
      await backend().apply(quickSpec(name, image));
      await eventually("it listens", async () => {
        const stream = await backend().dial(name, 8080, "tcp").catch(() => undefined);
        stream?.reset();
        return stream !== undefined;
      });
      await outside(() =>
        assert.rejects(backend().dial(name, 8080, "tcp"), {
          code: "unsupported",
          message: /its containers' addresses are on the host of tcp:.*, not here/,
          help: /SVC_PODMAN_REMOTE/,
        })
      );
    } finally {
      await backend().delete(name);
    }
  });
};

/** Only control groups would tell its processes from the others. */
const unstoppable: DeploySuite<PodmanFixture>["own"] = (test, { backend, image, reopen }) => {
  test("what has the host's processes is refused where it could not be stopped", async () => {
    await reopen(undefined, ["pidMode"]);
    try {
      await assert.rejects(backend().apply(quickSpec("shared", image, { pidMode: "host" })), {
        code: "unsupported",
        message: /Cannot deploy shared: pidMode host: a rootless podman without control groups/,
        help: /Delegate=/,
      });
      assert.deepEqual(await backend().list(), []);
    } finally {
      await reopen();
    }
  });
};

for (const { options, ...suite } of ALL_TRANSPORTS ? EVERY : PODMANS) {
  const { by, rootless, version } = options;
  const commands = [...PODMAN_COMMANDS, ...by === "ssh" ? ["ssh", "sshd", "ssh-keygen"] : []];
  const files = version === "5" ? [UNSTABLE_READY] : PODMAN_FILES;
  deployContract({
    ...suite,
    ...requireTools({ root: true, commands, files }),
    open: () => podmanFixture(options),
    own: (test, under, fixture) => {
      if (by === "tcp" && !rootless) addresses(test, under, fixture);
      if (rootless && few) unstoppable(test, under, fixture);
      const made = () => madeBy(fixture.engine);
      if (!rootless && ALL_TRANSPORTS) deployCrowd(test, under, made);
      if (suite.parts) return;
      engineBackend(test, under, fixture);
      if (!rootless) podmanFiles(test, under, fixture);
      if (!rootless && (by ?? "unix") === "unix") {
        const { socket } = fixture.peer;
        engineFaults(test, under, { socket, made });
      }
      if (by === "ssh") {
        const containers = async (name: string) => {
          const filter = `label=svc.deployment=${name}`;
          const { stdout } = await fixture.engine("ps", "-aq", "--filter", filter);
          return stdout.split("\n").filter(Boolean);
        };
        const daemon = { kill9: fixture.sshd!.stop, start: fixture.sshd!.start };
        engineDies(test, under, { what: "an ssh server", daemon, containers });
      }
    },
  });
}
