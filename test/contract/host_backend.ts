/**
 * What every host engine of ours does (lib/deploy/host), beyond the contract: the server is on the host of its
 * workloads, writes the rules of their ports, and their names.
 */
import assert from "node:assert/strict";
import { PRIVILEGED_KINDS } from "../../lib/deploy/privileges.ts";
import { eventually } from "../waits.ts";
import { Watcher } from "./deploy_events.ts";
import type { DeployBackendUnderTest, OwnTest } from "./deploy_suite.ts";
import { execute, lines, quickSpec, shell, tell } from "./deploy_tools.ts";

export interface HostUnderTest extends DeployBackendUnderTest {
  /** The backend's name, and that of its folder. */
  engine: string;
  dataDir: string;
  /** A folder that may be mounted. */
  allowed: string;
  /** "10.64": nobody else's networks begin so. */
  subnetBase: string;
  /** Bridges that networks other than the default one may have had. */
  userBridges: string[];
}

/** Ends each time it is started, once it was told so. */
const ENDING = "while [ ! -e /tmp/end ]; do sleep 0.05; done; echo over; exit 1";

export function hostBackend(test: OwnTest, under: HostUnderTest): void {
  const { backend, image } = under;
  const withNames = (title: string, names: string[], fn: () => Promise<void>) =>
    test(title, async () => {
      try {
        await fn();
      } finally {
        for (const name of names) await backend().delete(name);
      }
    });

  test("an image that is nowhere is refused before anything is made", async () => {
    await assert.rejects(backend().apply(quickSpec("nobody", "no-such-image")), {
      code: "manifest_unknown",
    });
    assert.equal(await backend().status("nobody"), undefined);
  });

  withNames("instances are numbered", ["many"], async () => {
    const { deployment } = await backend().apply(quickSpec("many", image, { replicas: 2 }));
    assert.deepEqual(deployment.instances.map(({ id }) => id), ["many-0", "many-1"]);
  });

  withNames(
    "stopped in the middle of restarts, it stays so; its log is there",
    ["again"],
    async () => {
      await backend().apply(quickSpec("again", image, { command: shell(ENDING) }));
      await under.reopen();
      await tell(backend(), "again", "end");
      const instance = async () => (await backend().status("again"))!.instances[0];
      await eventually("a restart", async () => (await instance()).restarts > 0, 1);
      // It is seen to its end, and none follows.
      const { instances: [stopped] } = await backend().power("again", "stop");
      assert.ok((await lines(backend(), "again", { tail: 99 })).includes("over"));
      assert.equal(stopped.state, "exited");
      assert.doesNotMatch(stopped.message ?? "", /restarts at/);
      await under.reopen();
      assert.equal((await backend().status("again"))?.state, "stopped");
      await assert.rejects(backend().caps.exec!("again", { command: ["id"] }), {
        code: "conflict",
      });
    },
  );

  withNames("a start that fails is told when it is over", ["late"], async () => {
    const command = shell("test -e /tmp/once && exit 4; touch /tmp/once; exec sleep 1000");
    await backend().apply(quickSpec("late", image, { command, restart: "no" }));
    await backend().power("late", "stop");
    await using watcher = new Watcher(backend(), "late");
    const starting = assert.rejects(backend().power("late", "start"), { code: "deploy_failed" });
    assert.deepEqual(await watcher.until("stopped"), ["started", "died 4", "stopped"]);
    assert.equal((await backend().status("late"))!.state, "failed");
    await starting;
  });

  withNames(
    "nor does a restart policy start again what is not permitted any more",
    ["mighty"],
    async () => {
      try {
        await under.reopen(undefined, PRIVILEGED_KINDS);
        const privileges = { capAdd: ["SYS_ADMIN"], pidMode: "host" };
        await backend().apply(
          quickSpec("mighty", image, { command: shell(ENDING), ...privileges }),
        );
        await under.reopen();
        await tell(backend(), "mighty", "end");
        await eventually("told", async () => {
          const [{ message }] = (await backend().status("mighty"))!.instances;
          return /does not permit pidMode \(host\), capAdd \(SYS_ADMIN\)/.test(message ?? "");
        });
        assert.equal((await backend().status("mighty"))!.instances[0].pid, undefined);
      } finally {
        await under.reopen();
      }
    },
  );

  withNames("names lead to what is ready", ["named", "peer"], async () => {
    const network = "names";
    const spec = (more: Record<string, unknown>) =>
      quickSpec("named", image, { networks: [network], ...more });
    /** Addresses of a name, as another deployment sees them. */
    const resolve = async (name: string) => {
      const command = ["busybox", "nslookup", "-type=a", name];
      const { stdout } = await execute(backend(), "peer", { command });
      return stdout.split(/^Name:/m).slice(1).flatMap((part) =>
        /Address(?: \d+)?: *(\S+)/.exec(part)?.[1] ?? []
      );
    };
    const hosts = async () =>
      (await execute(backend(), "peer", { command: ["cat", "/etc/hosts"] })).stdout;
    const address = async () => (await backend().status("named"))!.instances[0].ip!;
    await backend().apply(quickSpec("peer", image, { networks: [network] }));
    await backend().apply(spec({ hostname: "own.example.org" }));
    const first = await address();
    for (const name of ["named", "named-0", "own.example.org", "own"]) {
      assert.deepEqual(await resolve(name), [first], name);
    }
    const self = await execute(backend(), "named", { command: ["cat", "/etc/hosts"] });
    assert.match(self.stdout, new RegExp(`^${first}\\s+own\\.example\\.org own$`, "m"));
    // A replacement on trial: its port and its health are not there for a while.
    const command = ["sh", "-c", "sleep 2; exec httpd -f -p 8080 -h /srv"];
    const healthcheck = {
      test: ["CMD-SHELL", "wget -qO /dev/null http://127.0.0.1:8080/"],
      interval: "1s",
      retries: 60,
    };
    let over = false;
    const applied = backend().apply(spec({ command, healthcheck })).finally(() => over = true);
    const seen: string[][] = [];
    while (!over) {
      const addresses = await resolve("named");
      seen.push(addresses);
      if (addresses[0] === first) continue;
      // The new one: it answers.
      const url = `http://${addresses[0]}:8080/`;
      const fetched = await execute(backend(), "peer", { command: ["wget", "-qO-", url] });
      assert.equal(fetched.code, 0);
    }
    assert.ok(seen.every((addresses) => addresses.length === 1) && seen[0][0] === first);
    await applied;
    const second = await address();
    assert.notEqual(second, first);
    assert.deepEqual(await resolve("named"), [second]);
    assert.match(await hosts(), new RegExp(`^${second}\\s+named `, "m"));
    assert.deepEqual(await resolve("own"), []);
    await backend().power("named", "stop");
    assert.deepEqual(await resolve("named"), []);
    await eventually("no name", async () => !/\snamed\s/.test(await hosts()));
    await backend().power("named", "start");
    assert.deepEqual(await resolve("named"), [second]);
  });

  /** Listens late; `/cgi-bin/slow` takes its time. */
  const server = (version: string, delay: number) => {
    const slow = `#!/bin/sh\nsleep 2\nprintf 'Content-type: text/plain\\r\\n\\r\\n${version}'\n`;
    return quickSpec("late", image, {
      ports: [8080],
      env: { SLOW: slow },
      command: [
        "sh",
        "-c",
        `sleep ${delay}; mkdir /srv/cgi-bin; printf '%s' "$SLOW" > /srv/cgi-bin/slow; ` +
        `chmod 755 /srv/cgi-bin/slow; echo ${version} > /srv/index.html; exec httpd -f -p 8080 -h /srv`,
      ],
    });
  };
  const ask = async (port: number, path = "/") => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      headers: { connection: "close" },
      signal: AbortSignal.timeout(30_000),
    });
    assert.equal(response.status, 200);
    return (await response.text()).trim();
  };

  withNames("a replacement without a health check loses no request", ["late"], async () => {
    const { deployment } = await backend().apply(server("v0", 0));
    const [{ host }] = deployment.ports;
    await eventually("an answer", async () => await ask(host).catch(() => "") === "v0");
    let over = false;
    const answers = new Set<string>();
    const load = Array.from({ length: 3 }, async (_, at) => {
      while (!over) {
        answers.add(await ask(host, at === 0 ? "/cgi-bin/slow" : "/"));
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    });
    try {
      for (const version of ["v1", "v2"]) {
        const replaced = await backend().apply(server(version, 2));
        assert.equal(replaced.deployment.ports[0].host, host);
        assert.equal(await ask(host), version);
      }
    } finally {
      over = true;
      await Promise.all(load);
    }
    assert.deepEqual([...answers].sort(), ["v0", "v1", "v2"]);
  });

  withNames("what never listens takes nobody's place", ["late"], async () => {
    const { deployment } = await backend().apply(server("v0", 0));
    const [{ host }] = deployment.ports;
    await eventually("an answer", async () => await ask(host).catch(() => "") === "v0");
    await assert.rejects(backend().apply(server("v1", 1000)), {
      code: "deploy_failed",
      message: /does not listen on 8080\/tcp after \d+ s, where the one before it answers/,
    });
    assert.equal(await ask(host), "v0");
    // Where nobody answered before, nobody waits.
    await backend().apply(quickSpec("late", image, { command: ["sleep", "1000"] }));
    const again = await backend().apply(server("v2", 1000));
    assert.equal(again.action, "replaced");
  });
}
