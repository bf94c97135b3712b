/**
 * The dockerhost backend with daemons that it reaches by TLS and by ssh: the parts of the contract that its calls and
 * streams make (or all of it with every daemon, see transports.ts), who is refused, and what needs the daemon's host.
 */
import assert from "node:assert/strict";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import { requireTools } from "../e2e/harness.ts";
import type { DockerdOptions } from "../peers/dockerd.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { type Sshd, startSshd, useSsh } from "../peers/sshd.ts";
import { eventually } from "../waits.ts";
import { deployBackendContract } from "./deploy_backend.ts";
import { deployEvents } from "./deploy_events.ts";
import { deployExec } from "./deploy_exec.ts";
import { deployFiles } from "./deploy_files.ts";
import { deployImages } from "./deploy_images.ts";
import { type DeployBackendUnderTest, deployContract, type OwnTest } from "./deploy_suite.ts";
import { quickSpec, runs } from "./deploy_tools.ts";
import { dockerhostFaults } from "./dockerhost_faults.ts";
import {
  DOCKER_COMMANDS,
  DOCKER_DAEMONS,
  type DockerhostFixture,
  dockerhostFixture,
} from "./dockerhost_fixture.ts";
import { engineBackend } from "./engine_backend.ts";
import { engineDies } from "./engine_dies.ts";
import { ALL_TRANSPORTS, FAR } from "./transports.ts";

/** What is streamed. */
const STREAMS = [deployExec, deployFiles, deployImages];
/** Left out: what the daemon does by itself once it has been asked. */
const PARTS = [deployBackendContract, deployEvents, ...STREAMS];

async function refused(
  backend: DeployBackend,
  image: string,
  told: { code?: string; message: RegExp },
): Promise<void> {
  try {
    await assert.rejects(backend.apply(quickSpec("refused", image)), told);
    assert.deepEqual(await backend.list(), []);
  } finally {
    await backend[Symbol.asyncDispose]();
  }
}

/** On another host a container's address is nobody's, or somebody else's. */
function addresses(
  test: OwnTest,
  { backend, image }: DeployBackendUnderTest,
  { outside }: DockerhostFixture,
): void {
  test("a container's address is dialled on the daemon's host alone, and refused by name elsewhere", async () => {
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
          message: /its containers' addresses are on the host of/,
          help: /SVC_DOCKER_REMOTE/,
        })
      );
    } finally {
      await backend().delete(name);
    }
  });
}

interface SshFixture extends DockerhostFixture {
  sshd: Sshd;
  /** The known hosts of the server's user. */
  known: string;
}

async function sshFixture(options: DockerdOptions): Promise<SshFixture> {
  let path = "";
  const fixture = await dockerhostFixture(options, () => ({ host: `ssh://peer${path}` }));
  path = new URL(fixture.daemon.host).pathname;
  const sshd = await startSshd();
  const ssh = await useSsh(sshd);
  return {
    ...{ ...fixture, sshd, known: ssh.known },
    async [Symbol.asyncDispose]() {
      ssh[Symbol.dispose]();
      await sshd[Symbol.asyncDispose]();
      await fixture[Symbol.asyncDispose]();
    },
  };
}

for (const [name, options] of ALL_TRANSPORTS ? DOCKER_DAEMONS : DOCKER_DAEMONS.slice(0, 1)) {
  const tools = requireTools({
    root: true,
    commands: [...DOCKER_COMMANDS, "openssl", "ssh", "sshd", "ssh-keygen"],
    files: options.version === "28" ? [UNSTABLE_READY] : [],
  });
  /** What the usual way has beside the contract. */
  const whole: typeof addresses = (test, under, fixture) => {
    addresses(test, under, fixture);
    if (!ALL_TRANSPORTS) return;
    engineBackend(test, under, fixture);
    dockerhostFaults(test, under, fixture);
  };

  deployContract<DockerhostFixture>({
    name,
    way: "by TLS",
    lacks: FAR,
    ...tools,
    parts: ALL_TRANSPORTS ? undefined : PARTS,
    open: () =>
      dockerhostFixture(
        { ...options, tcp: "tls" },
        ({ tcp: host, certificates: certPath }) => ({ host, tls: true, certPath }),
      ),
    own: (test, under, fixture) => {
      whole(test, under, fixture);
      test("without a certificate nothing is deployed", async () => {
        const { image, daemon: { tcp: host } } = fixture;
        const told = { code: "unavailable", message: /the Docker daemon .* it speaks TLS/ };
        await refused(await fixture.by({ host }), image, told);
        assert.equal((await fixture.engine("ps", "-aq")).stdout, "");
      });
    },
  });

  deployContract<SshFixture>({
    name,
    way: "by ssh",
    lacks: FAR,
    ...tools,
    // The calls are those of every socket: ssh carries bytes.
    parts: ALL_TRANSPORTS ? undefined : STREAMS,
    open: () => sshFixture(options),
    own: (test, under, fixture) => {
      const { backend, image } = under;
      whole(test, under, fixture);
      const containers = async (name: string) => {
        const filter = `label=svc.deployment=${name}`;
        const { stdout } = await fixture.engine("ps", "-aq", "--filter", filter);
        return stdout.split("\n").filter(Boolean);
      };
      const daemon = { kill9: fixture.sshd.stop, start: fixture.sshd.start };
      engineDies(test, under, { what: "an ssh server", daemon, containers });
      test("the line breaks: told, and all is there when it is back", async () => {
        try {
          await backend().apply(quickSpec("stays", image));
          const before = await runs(backend(), "stays");
          const events = backend().events(new AbortController().signal)[Symbol.asyncIterator]();
          const lost = assert.rejects(events.next(), { code: "unavailable" });
          await fixture.sshd.drop();
          await lost;
          await eventually("the line is there again", async () => {
            const now = await runs(backend(), "stays").catch(() => []);
            return now.join() === before.join();
          });
          assert.equal((await backend().apply(quickSpec("stays", image))).action, "unchanged");
        } finally {
          await backend().delete("stays");
        }
      });
      test("a strange host key deploys nothing", async () => {
        await Deno.writeTextFile(fixture.known, "");
        const host = `ssh://peer${new URL(fixture.daemon.host).pathname}`;
        const told = { code: "denied", message: /Cannot trust peer: its host key/ };
        await refused(await fixture.by({ host }), image, told);
        assert.equal((await fixture.engine("ps", "-aq")).stdout, "");
      });
    },
  });
}
