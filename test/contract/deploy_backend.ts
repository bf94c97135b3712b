/** What every DeployBackend must do; see lib/deploy/backend.ts. The image is a busybox with httpd. */
import assert from "node:assert/strict";
import { validateDeploySpec } from "../../lib/api/deploy_spec_parse.ts";
import type { DeploySpec } from "../../lib/api/deploy_spec.ts";
import type { LogFrame } from "../../lib/api/deployment.ts";
import { readAll } from "../../lib/wire/testing.ts";
import type { DeployBackend, ExecRequest, LogOptions } from "../../lib/deploy/backend.ts";
import { Person } from "../fixtures/person.ts";

export interface DeployBackendUnderTest {
  backend: () => DeployBackend;
  /**
   * A restart of the server: lets go of the workloads and opens the same data again. `between` is run
   * while there is no server; the next one permits these kinds of privilege, none if absent.
   */
  reopen: (between?: () => Promise<void>, permitted?: readonly string[]) => Promise<void>;
  /** Name of an image whose command serves HTTP on 8080; it has a shell. */
  image: string;
}

type Test = (title: string, fn: () => Promise<void>) => void;

/** Waits until `probe` holds; fails with its words after a minute. */
export async function eventually(
  what: string,
  probe: () => Promise<boolean>,
  everyMs = 50,
): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!await probe()) {
    if (Date.now() > deadline) assert.fail(`did not happen: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

/** A spec that stops at once. */
export function quickSpec(name: string, image: string, more: Record<string, unknown> = {}) {
  return validateDeploySpec({ name, image, stopSignal: "SIGKILL", ...more });
}

export async function lines(backend: DeployBackend, name: string, options?: LogOptions) {
  const frames: LogFrame[] = await Array.fromAsync(backend.logs(name, options));
  return frames.map((frame) => frame.line);
}

/** Runs a command to its end. */
export async function execute(
  backend: DeployBackend,
  name: string,
  request: ExecRequest,
  input = "",
) {
  const session = await backend.caps.exec!(name, request);
  const writer = session.stdin.getWriter();
  const written = writer.write(new TextEncoder().encode(input)).then(() => writer.close());
  const [stdout, stderr, code] = await Promise.all([
    new Response(session.stdout as ReadableStream<Uint8Array<ArrayBuffer>>).text(),
    new Response(session.stderr as ReadableStream<Uint8Array<ArrayBuffer>>).text(),
    session.exit,
    written.catch(() => {/* it ended without reading */}),
  ]);
  return { stdout, stderr, code };
}

const shell = (script: string) => ["sh", "-c", script];
/** For scripts: `until_told NAME` waits for `tell`, so that no step of theirs comes early or late. */
const UNTIL_TOLD = "until_told() { while [ ! -e /tmp/$1 ]; do sleep 0.05; done; }; ";
const tell = (backend: DeployBackend, name: string, what: string) =>
  execute(backend, name, { command: ["touch", `/tmp/${what}`] });
/** A health check that is never decided: the instance is on trial for as long as it runs. */
export const UNDECIDED = { test: "false", interval: "1h", retries: 1000 };
const pids = async (backend: DeployBackend, name: string) =>
  (await backend.status(name))?.instances.map((instance) => instance.pid);

export function deployBackendContract(test: Test, under: DeployBackendUnderTest): void {
  const { backend } = under;
  const spec = (name: string, more?: Record<string, unknown>): DeploySpec =>
    quickSpec(name, under.image, more);
  /** A test with a deployment of its own, which goes whatever happens. */
  const withName = (title: string, name: string, fn: (name: string) => Promise<void>) =>
    test(title, async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    });

  test("what is not there is undefined, false or not_found", async () => {
    assert.equal(await backend().status("nobody"), undefined);
    assert.equal(await backend().delete("nobody"), false);
    await assert.rejects(backend().power("nobody", "stop"), { code: "not_found" });
    await assert.rejects(lines(backend(), "nobody"), { code: "not_found" });
    await assert.rejects(backend().dial("nobody", 1, "tcp"), { code: "not_found" });
    await assert.rejects(backend().apply(spec("nobody", { image: "no-such-image" })), {
      code: "manifest_unknown",
    });
    assert.deepEqual(await backend().list(), []);
    assert.deepEqual(await backend().specs(), []);
  });

  withName("apply creates, leaves alone, replaces; delete removes", "life", async (name) => {
    const created = await backend().apply(spec(name, { replicas: 2, env: { A: "1" } }));
    assert.equal(created.action, "created");
    assert.equal(created.deployment.state, "running");
    assert.deepEqual(created.deployment.instances.map((i) => i.id), ["life-0", "life-1"]);
    assert.match(created.deployment.imageDigest ?? "", /^sha256:/);
    const known = await backend().specs();
    assert.deepEqual(known.map((one) => [one.name, one.env]), [[name, { A: "1" }]]);
    const first = await pids(backend(), name);
    const again = await backend().apply(spec(name, { env: { A: "1" }, replicas: 2 }));
    assert.equal(again.action, "unchanged");
    assert.deepEqual(await pids(backend(), name), first);
    const changed = await backend().apply(spec(name, { env: { A: "2" } }));
    assert.equal(changed.action, "replaced");
    assert.equal(changed.deployment.instances.length, 1);
    assert.ok(!first?.includes(changed.deployment.instances[0].pid));
    const seen = await execute(backend(), name, { command: shell("echo $A") });
    assert.equal(seen.stdout, "2\n");
    assert.deepEqual((await backend().list()).map((d) => d.name), [name]);
    assert.equal(await backend().delete(name), true);
    assert.equal(await backend().status(name), undefined);
  });

  withName("logs: both streams, tail, following to the end", "logs", async (name) => {
    const script = `${UNTIL_TOLD} echo one; until_told a; echo two >&2; until_told b; ` +
      "echo three; printf four";
    await backend().apply(spec(name, { command: shell(script), restart: "no" }));
    const frames: LogFrame[] = [];
    for await (const frame of backend().logs(name, { follow: true })) {
      frames.push(frame);
      if (frame.line === "one") await tell(backend(), name, "a");
      if (frame.line === "two") await tell(backend(), name, "b");
    }
    assert.deepEqual(frames.map((frame) => [frame.stream, frame.line]), [
      ["stdout", "one"],
      ["stderr", "two"],
      ["stdout", "three"],
      ["stdout", "four"],
    ]);
    assert.ok(frames.every((frame) => frame.instance === "logs-0"));
    assert.deepEqual(await lines(backend(), name, { tail: 2 }), ["three", "four"]);
    const since = new Date(frames[2].time.replace(/(\.\d{3})\d*Z$/, "$1Z"));
    assert.deepEqual(await lines(backend(), name, { since }), ["three", "four"]);
    await eventually("stopped", async () => (await backend().status(name))?.state === "stopped");
    const [instance] = (await backend().status(name))!.instances;
    assert.deepEqual([instance.state, instance.exitCode], ["exited", 0]);
  });

  withName("exec: exit codes, streams, environment, user, folder", "exec", async (name) => {
    await backend().apply(spec(name, { env: { A: "spec" } }));
    const run = (request: ExecRequest, input?: string) => execute(backend(), name, request, input);
    assert.deepEqual(await run({ command: shell("echo out; echo err >&2; exit 7") }), {
      stdout: "out\n",
      stderr: "err\n",
      code: 7,
    });
    assert.equal((await run({ command: ["cat"] }, "typed")).stdout, "typed");
    const where = await run({
      command: shell("pwd; id -u; echo $A $B"),
      env: { B: "exec" },
      user: "user",
      workingDir: "/tmp",
    });
    assert.equal(where.stdout, "/tmp\n1000\nspec exec\n");
    assert.equal((await run({ command: ["no-such-command"] })).code, 127);
    assert.equal((await run({ command: ["/etc/passwd"] })).code, 126);
    const session = await backend().caps.exec!(name, { command: ["sleep", "1000"] });
    await session.kill("KILL");
    assert.equal(await session.exit, 137);
    await Promise.all([session.stdout.cancel(), session.stderr.cancel(), session.stdin.close()]);
    await assert.rejects(backend().caps.exec!(name, { command: ["id"], instance: "exec-9" }), {
      code: "not_found",
    });
  });

  withName(
    "exec on a terminal: size, keys, exit codes, an end at once",
    "exec-tty",
    async (name) => {
      await backend().apply(spec(name));
      const start = async (request: ExecRequest) => {
        const session = await backend().caps.exec!(name, { tty: true, ...request });
        const { stdin: input, stdout: output, exit } = session;
        await session.stderr.pipeTo(new WritableStream());
        return { session, person: new Person({ input, output, exit }) };
      };
      const size = { columns: 101, rows: 37 };
      const { session, person } = await start({ command: ["sh"], size });
      await person.types("busybox tty; busybox stty size; echo $TERM\n");
      await person.sees(/\/dev\/pts\/\d+\r\n37 101\r\nxterm\r\n/);
      session.resize!({ columns: 200, rows: 50 });
      const resized = 'until [ "$(busybox stty size)" = "50 200" ]; do sleep 0.05; done';
      await person.types(`${resized}; echo the""re\n`);
      await person.sees(/there\r\n/);
      await person.types(`sh -c 'echo go""ing; exec sleep 1000'\n`);
      await person.sees(/going\r\n/);
      await person.types("\x03");
      await person.types("echo ended with $?\n");
      await person.sees(/ended with 130\r\n/);
      await person.types("exit 7\n");
      assert.equal((await person.end())[1], 7);
      session.resize!({ columns: 10, rows: 10 });

      const typed = (await start({ command: ["cat"], env: { TERM: "mine" } })).person;
      await typed.types("word\n");
      await typed.sees(/word\r\nword\r\n/);
      await typed.types("\x04");
      assert.deepEqual(await typed.end(), ["", 0]);
      const many = (await start({ command: shell("echo $TERM; seq 20000"), env: { TERM: "mine" } }))
        .person;
      const numbers = Array.from({ length: 20_000 }, (_, i) => `${i + 1}\r\n`).join("");
      assert.deepEqual(await many.end(), [`mine\r\n${numbers}`, 0]);

      const killed = await start({ command: shell("echo ready; exec sleep 1000") });
      await killed.person.sees(/ready/);
      await killed.session.kill("KILL");
      assert.deepEqual(await killed.person.end(), ["\r\n", 137]);
      for (const [command, code] of [["no-such-command", 127], ["/etc/passwd", 126]] as const) {
        const none = await backend().caps.exec!(name, { command: [command], tty: true });
        assert.deepEqual([none.refused, await none.exit], [true, code]);
        await Promise.all([none.stdout.cancel(), none.stderr.cancel()]);
      }
    },
  );

  withName("power: stop, start and restart, each twice", "power", async (name) => {
    await backend().apply(spec(name));
    const [first] = (await pids(backend(), name))!;
    assert.equal((await backend().power(name, "start")).instances[0].pid, first);
    for (let i = 0; i < 2; i++) {
      const stopped = await backend().power(name, "stop");
      assert.deepEqual([stopped.state, stopped.instances[0].state], ["stopped", "exited"]);
    }
    await assert.rejects(backend().caps.exec!(name, { command: ["id"] }), { code: "conflict" });
    const started = await backend().power(name, "start");
    assert.equal(started.state, "running");
    const [second] = (await pids(backend(), name))!;
    assert.ok(second && second !== first);
    const restarted = await backend().power(name, "restart");
    assert.ok(restarted.instances[0].pid !== second);
  });

  withName("a first apply that fails leaves nothing and shows the log", "bad", async (name) => {
    await assert.rejects(
      backend().apply(
        spec(name, {
          command: shell("for i in $(seq 30); do echo line $i; done; exit 3"),
          healthcheck: UNDECIDED,
        }),
      ),
      (error: { code?: string; message: string }) => {
        assert.equal(error.code, "deploy_failed");
        assert.match(error.message, /code 3.*\n {2}line 11\n/s);
        assert.doesNotMatch(error.message, /line 10\n/);
        return true;
      },
    );
    assert.equal(await backend().status(name), undefined);
    await assert.rejects(backend().apply(spec(name, { command: ["/no/such/file"] })), {
      code: "deploy_failed",
      message: /no\/such\/file/,
    });
    assert.deepEqual(await backend().list(), []);
  });

  withName("a replacement that fails keeps the old instance", "keep", async (name) => {
    await backend().apply(spec(name));
    const before = await pids(backend(), name);
    await assert.rejects(
      backend().apply(
        spec(name, {
          command: shell("echo broken; sleep 0.3; exit 1"),
          healthcheck: UNDECIDED,
        }),
      ),
      { code: "deploy_failed", message: /broken/ },
    );
    assert.deepEqual(await pids(backend(), name), before);
    const status = await backend().status(name);
    assert.equal(status?.state, "running");
    assert.match(status?.error ?? "", /broken/);
    assert.equal((await backend().apply(spec(name))).action, "unchanged");
  });

  withName("a health check gates, and is reported", "health", async (name) => {
    const check = { test: "test -e /tmp/ok", interval: "300ms", timeout: "60s" };
    const script = "sleep 0.3; touch /tmp/ok; sleep 1000";
    // However slow the script is: it is given time.
    const patient = { ...check, retries: 1000 };
    const result = await backend().apply(
      spec(name, { healthcheck: patient, command: shell(script) }),
    );
    assert.equal(result.deployment.instances[0].state, "healthy");
    await assert.rejects(
      backend().apply(
        spec(name, { healthcheck: { ...check, retries: 2 }, command: ["sleep", "1000"] }),
      ),
      { code: "deploy_failed", message: /unhealthy/ },
    );
    assert.equal((await backend().status(name))?.instances[0].state, "healthy");
  });

  withName(
    "restart policy: what fails is started again, what was stopped is not",
    "again",
    async (name) => {
      await backend().apply(
        spec(name, {
          command: shell(`${UNTIL_TOLD} until_told end; exit 5`),
          restart: "on-failure:2",
        }),
      );
      await tell(backend(), name, "end");
      await eventually("two restarts, then the end", async () => {
        const status = await backend().status(name);
        return status?.instances[0].restarts === 2 && status.state === "failed";
      });
      assert.equal((await backend().status(name))?.instances[0].exitCode, 5);
    },
  );

  withName("a restarted server finds what runs, and restarts what died", "adopt", async (name) => {
    const script = `${UNTIL_TOLD} echo begun; until_told end; echo over; exit 1`;
    await backend().apply(spec(name, { command: shell(script) }));
    const before = await pids(backend(), name);
    await under.reopen();
    assert.deepEqual(await pids(backend(), name), before);
    assert.equal(
      (await backend().apply(spec(name, { command: shell(script) }))).action,
      "unchanged",
    );
    await eventually("its output", async () => (await lines(backend(), name)).length > 0);
    assert.deepEqual(await lines(backend(), name), ["begun"]);
    await tell(backend(), name, "end");
    await eventually(
      "a restart",
      async () => (await backend().status(name))!.instances[0].restarts > 0,
      1,
    );
    // In its middle: it is seen to its end, and none follows.
    const { instances: [stopped] } = await backend().power(name, "stop");
    assert.equal((await lines(backend(), name, { tail: 99 })).includes("over"), true);
    assert.equal(stopped.state, "exited");
    assert.doesNotMatch(stopped.message ?? "", /restarts at/);
    await under.reopen();
    assert.equal((await backend().status(name))?.state, "stopped");
  });

  withName("dial reaches a port of the instance", "dial", async (name) => {
    await backend().apply(spec(name));
    const body = async () => {
      const stream = await backend().dial(name, 8080, "tcp");
      try {
        await stream.write(new TextEncoder().encode("GET / HTTP/1.0\r\n\r\n"));
        // The answer comes all the same.
        await stream.closeWrite();
        return new TextDecoder().decode(await readAll(stream));
      } finally {
        stream.reset();
      }
    };
    const answered = /^HTTP\/1\.[01] 200 OK.*hello from busybox/s;
    await eventually("an answer", () => body().then((text) => answered.test(text), () => false));
    await assert.rejects(backend().dial(name, 1, "tcp"), { code: "upstream_failed" });
  });

  withName(
    "what is not honoured warns, or refuses where the spec is strict",
    "warn",
    async (name) => {
      const egress = { mode: "proxy" };
      await assert.rejects(backend().apply(spec(name, { egress, strict: true })), {
        code: "unsupported",
        message: /egress/,
      });
      const { deployment } = await backend().apply(spec(name, { egress }));
      assert.match(deployment.warnings.join(), /^egress: /);
      await assert.rejects(backend().apply(spec(name, { mounts: ["/etc:/mnt"] })), {
        code: "denied",
      });
      assert.equal((await backend().status(name))?.state, "running");
    },
  );
}
