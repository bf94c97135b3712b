/** What backends on an engine with the Docker Engine API do besides the contract: the engine is others' too. */
import assert from "node:assert/strict";
import type { InstanceEvent } from "../../lib/api/deployment.ts";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import { freePort } from "../fixtures/free_port.ts";
import type { RunOutput } from "../e2e/harness.ts";
import { eventually } from "../waits.ts";
import type { DeployBackendUnderTest, DeployFixture, Need, OwnTest } from "./deploy_suite.ts";
import { execute, lines, quickSpec, runs, shell, UNDECIDED } from "./deploy_tools.ts";
import { Watcher } from "./deploy_events.ts";

export interface EngineFixture extends DeployFixture {
  /** The engine's own client; throws where it fails. */
  engine(...args: string[]): Promise<RunOutput>;
  /** Opens a server with other data on the same engine. */
  other(): Promise<DeployBackend>;
  /** A folder that may be mounted. */
  allowed: string;
  /** Restarts the engine; the containers may end with it. */
  restart(): Promise<void>;
  /** A stop by others is told as a death alone. */
  stopsUntold?: boolean;
}

export function engineBackend(
  test: OwnTest,
  under: DeployBackendUnderTest,
  fixture: EngineFixture,
): void {
  const { backend, image } = under;
  const { engine } = fixture;
  const withName = (
    title: string,
    name: string,
    fn: (name: string) => Promise<void>,
    needs?: readonly Need[],
  ) =>
    test(title, async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    }, needs);
  const containers = async (name: string, ...more: string[]) => {
    const filter = `label=svc.deployment=${name}`;
    const { stdout } = await engine("ps", "-aq", "--no-trunc", "--filter", filter, ...more);
    return stdout.split("\n").filter(Boolean);
  };
  const serving = (text: string) =>
    shell(`mkdir -p /tmp/w; echo ${text} > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w`);
  const fetched = async (port: number) =>
    (await (await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: "close" } })).text())
      .trim();

  withName(
    "a host port is handed over, and stays where it was if the new one fails",
    "port",
    async (name) => {
      const port = freePort();
      const spec = (text: string, more = {}) =>
        quickSpec(name, image, {
          ports: [`127.0.0.1:${port}:8080`],
          command: serving(text),
          ...more,
        });
      await backend().apply(spec("one"));
      const answers = (text: string) => () =>
        fetched(port).then((got) => got === text, () => false);
      await eventually("an answer", answers("one"));
      const before = await runs(backend(), name);
      await assert.rejects(
        backend().apply(spec("two", { command: shell("exit 3") })),
        { code: "deploy_failed", message: /exited with code 3/ },
      );
      assert.deepEqual(await runs(backend(), name), before, "it was not even stopped");
      let [asked, failed] = [0, 0];
      let done = false;
      const asking = (async () => {
        while (!done) {
          asked++;
          if (!await fetched(port).then(() => true, () => false)) failed++;
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      })();
      await backend().apply(spec("three"));
      await eventually("the new one's answer", answers("three"));
      done = true;
      await asking;
      assert.ok(failed < asked, `${failed} of ${asked} requests failed`);
      assert.equal((await containers(name)).length, 1);
      // Another container of the engine has the port.
      const taken = freePort();
      await engine(...[
        "run",
        "-d",
        "--stop-signal",
        "KILL",
        "--name",
        "taken",
        "-p",
        `127.0.0.1:${taken}:1`,
        "base:taken",
        "sleep",
        "1000",
      ]);
      try {
        await assert.rejects(
          backend().apply(quickSpec("port-b", image, { ports: [`127.0.0.1:${taken}:8080`] })),
          { code: "port_in_use" },
        );
        assert.equal(await backend().status("port-b"), undefined);
        assert.deepEqual(await containers("port-b"), []);
      } finally {
        await engine("rm", "-f", "taken");
      }
    },
  );

  withName(
    "a driver that the engine does not have is refused by its name",
    "driven",
    async (name) => {
      await under.reopen(undefined, ["volumes", "networks"]);
      try {
        const asked = { name: "unmade", driver: "nosuch" };
        for (
          const [what, fields] of [
            ["volume", { volumes: [{ ...asked, target: "/data" }] }],
            ["network", { networks: [asked] }],
          ] as const
        ) {
          await assert.rejects(backend().apply(quickSpec(name, image, fields)), {
            code: "spec_invalid",
            message: new RegExp(`(volume|network) unmade: .+ has no ${what} driver nosuch$`),
            help: what === "volume" ? /\(local\)/ : /\(bridge, .*macvlan/,
          });
        }
        assert.deepEqual(await backend().list(), []);
      } finally {
        await under.reopen();
      }
    },
  );

  withName("who removes, stops or renames a container is seen", "meddled", async (name) => {
    const spec = quickSpec(name, image, { replicas: 2, restart: "always" });
    await backend().apply(spec);
    const ids = await containers(name);
    await using watcher = new Watcher(backend(), name);
    await engine("rename", ids[0], "renamed-by-somebody");
    await engine("stop", ids[0]);
    const stopped = ["died 137", ...fixture.stopsUntold ? [] : ["stopped"]];
    assert.deepEqual(await watcher.until(stopped.at(-1)!), stopped);
    await engine("start", ids[0]);
    await watcher.until("started");
    watcher.again();
    await engine("rm", "-f", ids[0]);
    await watcher.until("removed");
    const status = (await backend().status(name))!;
    assert.equal(status.state, "running", "the other one runs");
    const gone = status.instances.filter(({ state }) => state === "failed");
    assert.match(gone[0]?.message ?? "", /was removed, and not by svc; deploy again/);
    const [kept] = (await runs(backend(), name)).filter((one) => !one.endsWith("undefined"));
    assert.equal((await backend().apply(spec)).action, "replaced");
    assert.ok((await runs(backend(), name)).includes(kept), "the other one was left alone");
    assert.equal((await containers(name)).length, 2);
    for (const id of await containers(name)) await engine("rm", "-f", id);
    await eventually("failed", async () => (await backend().status(name))?.state === "failed");
    assert.equal(await backend().delete(name), true);
  });

  withName("two servers of one engine do not touch each other's", "shared", async (name) => {
    const other = await fixture.other();
    try {
      const networks = ["between"];
      const volumes = ["kept-apart:/data"];
      await backend().apply(quickSpec(name, image, { networks, volumes }));
      assert.deepEqual(await other.list(), []);
      assert.equal(await other.delete(name), false);
      for (const fields of [{ networks }, { volumes }]) {
        await assert.rejects(other.apply(quickSpec(name, image, fields)), {
          code: "conflict",
          message: /not of this server/,
        });
      }
      const before = await runs(backend(), name);
      await other.apply(quickSpec(name, image, { labels: { "svc.server": "spoofed", own: "1" } }));
      assert.deepEqual(await runs(backend(), name), before);
      assert.equal((await backend().list()).length, 1);
      const labels = await engine(
        "inspect",
        "-f",
        "{{json .Config.Labels}}",
        ...await containers(name),
      );
      assert.doesNotMatch(labels.stdout, /spoofed/);
      assert.equal(await other.delete(name), true);
      assert.deepEqual(await runs(backend(), name), before);
    } finally {
      await other.delete(name);
      await other[Symbol.asyncDispose]();
    }
    await engine("network", "create", "somebodys");
    await assert.rejects(
      backend().apply(quickSpec("intruder", image, { networks: ["somebodys"] })),
      { code: "conflict", message: /not of this server/ },
    );
    await engine("network", "rm", "somebodys");
    await backend().delete(name);
    await engine("volume", "rm", "kept-apart");
    // An engine may keep it busy for a moment.
    await eventually("a network goes with its last deployment", async () => {
      const { stdout } = await engine("network", "ls", "--format", "{{.Name}}");
      return !/between/.test(stdout);
    });
  });

  withName("folders: nobody may change what another's source leads to", "folders", async (name) => {
    await Deno.mkdir(`${fixture.allowed}/outer/inner`, { recursive: true });
    await Deno.writeTextFile(`${fixture.allowed}/outer/inner/file`, "seen");
    const inner = [`${fixture.allowed}/outer/inner:/in:ro`];
    await backend().apply(quickSpec(name, image, { mounts: inner }));
    const seen = await execute(backend(), name, { command: ["cat", "/in/file"] });
    assert.equal(seen.stdout, "seen");
    const again = await backend().apply(quickSpec(name, image, { mounts: inner, env: { V: "2" } }));
    assert.equal(again.action, "replaced");
    assert.equal((await backend().power(name, "restart")).state, "running");
    await assert.rejects(
      backend().apply(quickSpec(name, image, { mounts: [`${fixture.allowed}/outer:/in`] })),
      { code: "conflict", message: /a container of/ },
    );
    const outer = quickSpec("folders-b", image, { mounts: [`${fixture.allowed}/outer:/out`] });
    await assert.rejects(backend().apply(outer), { code: "conflict", message: /could replace/ });
    const readOnly = { mounts: [`${fixture.allowed}/outer:/out:ro`] };
    await backend().apply(quickSpec("folders-b", image, readOnly));
    await backend().delete("folders-b");
    await Deno.symlink("/etc", `${fixture.allowed}/link`);
    await assert.rejects(
      backend().apply(quickSpec("folders-b", image, { mounts: [`${fixture.allowed}/link:/out`] })),
      { code: "denied" },
    );
  }, ["folders"]);

  withName(
    "what an apply that was cut short has left goes at the next start",
    "cut",
    async (name) => {
      await backend().apply(quickSpec(name, image));
      const before = await runs(backend(), name);
      const abort = new AbortController();
      const applied = backend().apply(
        quickSpec(name, image, { env: { NEW: "1" }, healthcheck: UNDECIDED }),
        {},
        { signal: abort.signal },
      );
      applied.catch(() => {/* below */});
      await eventually("the new one runs", async () => (await containers(name)).length === 2);
      abort.abort();
      await assert.rejects(applied);
      assert.equal((await containers(name)).length, 1);
      // As a server that ended at that moment leaves it.
      const [{ stdout: server }] = [
        await engine(
          "inspect",
          "-f",
          '{{index .Config.Labels "svc.server"}}',
          ...await containers(name),
        ),
      ];
      const labels = [
        ...["--label", `svc.server=${server.trim()}`, "--label", `svc.deployment=${name}`],
        ...["--label", "svc.replica=0"],
      ];
      await under.reopen(async () => {
        await engine("run", "-d", ...labels, "base:taken", "sleep", "1000");
      });
      await eventually("it is gone", async () => (await containers(name)).length === 1);
      assert.deepEqual(await runs(backend(), name), before);
    },
  );

  withName("anonymous volumes go with the container, named ones stay", "volumes", async (name) => {
    const volumes = async () =>
      (await engine("volume", "ls", "-q")).stdout.split("\n").filter(Boolean);
    const first = await volumes();
    const spec = (env = {}) => quickSpec(name, image, { env, volumes: ["named:/data"] });
    await backend().apply(spec());
    await execute(backend(), name, {
      command: shell("echo kept > /data/file; cat /var/state/seed"),
    });
    await backend().apply(spec({ A: "1" }));
    const { stdout } = await execute(backend(), name, { command: ["cat", "/data/file"] });
    assert.equal(stdout, "kept\n");
    await backend().delete(name);
    assert.deepEqual((await volumes()).filter((one) => !first.includes(one)), ["named"]);
    await engine("volume", "rm", "named");
  });

  withName(
    "an engine that restarts: told as unavailable, then all is as it was",
    "gone",
    async (name) => {
      await backend().apply(
        quickSpec(name, image, { restart: "always", command: shell("echo begun; sleep 1000") }),
      );
      const abort = new AbortController();
      const seen: InstanceEvent[] = [];
      const watched = (async () => {
        for await (const event of backend().events(abort.signal)) seen.push(event);
      })();
      const lost = assert.rejects(watched, { code: "unavailable" });
      const [{ restarts }] = (await backend().status(name))!.instances;
      assert.equal(restarts, 0);
      await fixture.restart();
      await lost;
      await eventually("it runs again", async () => {
        const status = await backend().status(name).catch(() => undefined);
        return status?.state === "running";
      });
      assert.ok((await lines(backend(), name)).includes("begun"));
      assert.equal(
        (await backend().apply(
          quickSpec(name, image, { restart: "always", command: shell("echo begun; sleep 1000") }),
        )).action,
        "unchanged",
      );
    },
  );
}
