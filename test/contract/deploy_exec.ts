/** Commands beside a workload's main process: what every backend with the ability `exec` does. */
import assert from "node:assert/strict";
import type { ExecRequest } from "../../lib/deploy/backend.ts";
import { Person } from "../fixtures/person.ts";
import type { DeployBackendUnderTest, Test } from "./deploy_suite.ts";
import { execute, quickSpec, shell } from "./deploy_tools.ts";

export function deployExec(test: Test, under: DeployBackendUnderTest): void {
  const { backend } = under;
  const spec = (name: string, more?: Record<string, unknown>) => quickSpec(name, under.image, more);
  const withName = (title: string, name: string, fn: (name: string) => Promise<void>) =>
    test(title, ["exec"], async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
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
}
