/** What every DeployBackend gives back as it was given: bytes of logs, where it came from, names. */
import assert from "node:assert/strict";
import { printedBytes } from "../../lib/api/log_bytes.ts";
import { type DeployBackendUnderTest, eventually, execute, quickSpec } from "./deploy_backend.ts";

/** Prints every byte, lines longer than any buffer, in a script of three-byte characters, and no last newline. */
const PRINT = String.raw`printf '\000\001\002\377\376\r\n\r\n\n'
i=0; while [ $i -lt 12000 ]; do printf '☃'; i=$((i+1)); done
printf '\r\nend'`;

export function deployDetails(
  test: (title: string, fn: () => Promise<void>) => void,
  under: DeployBackendUnderTest,
): void {
  const { backend } = under;
  const withNames = (title: string, names: string[], fn: () => Promise<void>) =>
    test(title, async () => {
      try {
        await fn();
      } finally {
        for (const name of names) await backend().delete(name);
      }
    });

  withNames("logs are the bytes that were printed", ["bytes"], async () => {
    await backend().apply(
      quickSpec("bytes", under.image, { command: ["sh", "-c", PRINT], restart: "no" }),
    );
    const expected = new Blob([
      new Uint8Array([0, 1, 2, 255, 254, 13, 10, 13, 10, 10]),
      "☃".repeat(12000),
      "\r\nend",
    ]);
    for (const follow of [true, false]) {
      const frames = await Array.fromAsync(backend().logs("bytes", { follow }));
      assert.deepEqual(await new Blob(frames.map(printedBytes)).bytes(), await expected.bytes());
    }
  });

  withNames("where it was deployed from comes back", ["from"], async () => {
    const origin = { project: "shop", git: { branch: "main", dirty: true }, subject: "ci" };
    const { deployment } = await backend().apply(quickSpec("from", under.image, { origin }));
    assert.deepEqual(deployment.origin, origin);
    const later = { project: "shop", subject: "other" };
    await backend().apply(quickSpec("from", under.image, { origin: later }));
    await under.reopen();
    assert.deepEqual((await backend().status("from"))?.origin, later);
    assert.deepEqual((await backend().list())[0].origin, later);
  });

  withNames("names and homes that a spec gives stay", ["given"], async () => {
    const env = { HOSTNAME: "given", HOME: "/given" };
    await backend().apply(quickSpec("given", under.image, { env, groupAdd: ["77"] }));
    const command = ["sh", "-c", "echo $HOSTNAME $HOME $(id -G)"];
    const asked = await execute(backend(), "given", { command, user: "user" });
    assert.equal(asked.stdout, "given /given 1000 77\n");
  });

  withNames("names lead to what is ready", ["named", "peer"], async () => {
    const network = "names";
    const spec = (more: Record<string, unknown>) =>
      quickSpec("named", under.image, { networks: [network], ...more });
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
    await backend().apply(quickSpec("peer", under.image, { networks: [network] }));
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
    return quickSpec("late", under.image, {
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
    await backend().apply(quickSpec("late", under.image, { command: ["sleep", "1000"] }));
    const again = await backend().apply(server("v2", 1000));
    assert.equal(again.action, "replaced");
  });
}
