/** The main process's streams: what every backend with the ability `attach` does. */
import assert from "node:assert/strict";
import type { AttachSession, InstanceOptions } from "../../lib/deploy/caps.ts";
import { Person } from "../fixtures/person.ts";
import { eventually } from "../waits.ts";
import type { DeployBackendUnderTest, Need, Test } from "./deploy_suite.ts";
import { execute, lines, quickSpec, shell, tell, UNTIL_TOLD } from "./deploy_tools.ts";

const text = (stream: ReadableStream<Uint8Array>) =>
  new Response(stream as ReadableStream<Uint8Array<ArrayBuffer>>).text();

export function deployAttach(test: Test, under: DeployBackendUnderTest): void {
  const { backend, image } = under;
  const withName = (
    title: string,
    name: string,
    needs: readonly Need[],
    fn: (name: string) => Promise<void>,
  ) =>
    test(title, ["attach", ...needs], async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    });
  const attach = (name: string, options?: InstanceOptions) => backend().caps.attach!(name, options);
  /** Reads what it prints, and types to it, as to any program. */
  const person = ({ stdin, stdout, exit }: AttachSession) =>
    new Person({
      input: stdin ?? new WritableStream(),
      output: stdout,
      exit: exit.then((code) => code ?? -1),
    });
  const logged = (name: string, line: string) =>
    eventually(line, async () => (await lines(backend(), name)).includes(line));

  withName(
    "attach: both streams from then on, for each who is attached, and the exit code",
    "watched",
    ["exec", "spec.restart"],
    async (name) => {
      const script = `${UNTIL_TOLD} echo before; until_told go; echo out; echo err >&2; ` +
        "printf 'no end'; exit 7";
      await backend().apply(quickSpec(name, image, { command: shell(script), restart: "no" }));
      await logged(name, "before");
      const sessions = await Promise.all([attach(name), attach(name, { instance: "0" })]);
      for (const { stdin, resize } of sessions) {
        assert.deepEqual([stdin, resize], [undefined, undefined]);
      }
      await tell(backend(), name, "go");
      for (const { stdout, stderr, exit } of sessions) {
        const expected = under.lacks["logs.streams"]
          ? ["out\nerr\nno end", ""]
          : ["out\nno end", "err\n"];
        assert.deepEqual(await Promise.all([text(stdout), text(stderr), exit]), [...expected, 7]);
      }
      await logged(name, "out");
      await assert.rejects(attach("nobody"), { code: "not_found" });
      await assert.rejects(attach(name, { instance: `${name}-9` }), { code: "not_found" });
    },
  );

  withName("attach: every byte, in its order", "bytes", ["exec", "spec.restart"], async (name) => {
    const script = `${UNTIL_TOLD} echo ready; until_told go; seq 100000; ` +
      "printf '\\377\\000\\r\\n\\r'; head -c 300000 /dev/zero; exit 0";
    await backend().apply(quickSpec(name, image, { command: shell(script), restart: "no" }));
    await logged(name, "ready");
    const { stdout, stderr, exit } = await attach(name);
    const bytes = new Response(stdout as ReadableStream<Uint8Array<ArrayBuffer>>).bytes();
    await tell(backend(), name, "go");
    const numbers = Array.from({ length: 100_000 }, (_, i) => `${i + 1}\n`).join("");
    const end = new TextEncoder().encode(numbers).length;
    const got = await bytes;
    assert.equal(new TextDecoder().decode(got.subarray(0, end)), numbers);
    assert.deepEqual([...got.subarray(end, end + 5)], [255, 0, 13, 10, 13]);
    assert.equal(got.length, end + 5 + 300_000);
    assert.ok(got.subarray(end + 5).every((byte) => byte === 0));
    assert.deepEqual([await text(stderr), await exit], ["", 0]);
  });

  withName(
    "attach: before the start it waits, and then tells all from the first byte on",
    "early",
    ["spec.restart"],
    async (name) => {
      const spec = quickSpec(name, image, { command: shell("echo first; exec sleep 1000") });
      await backend().apply(spec);
      await logged(name, "first");
      await backend().power(name, "stop");
      const abort = new AbortController();
      const given = attach(name, { signal: abort.signal });
      const waiting = attach(name);
      let attached = false;
      const noted = waiting.then(() => attached = true);
      abort.abort(new Error("given up"));
      await assert.rejects(given, /given up/);
      assert.equal(attached, false);
      await backend().power(name, "start");
      await noted;
      const session = await waiting;
      await person(session).sees(/^first\n/);
      session.detach();
      await backend().power(name, "stop");
      const gone = assert.rejects(attach(name), { code: "not_found" });
      await backend().delete(name);
      await gone;
    },
  );

  withName("attach: a detached session ends nothing", "left", [
    "attach.pipe",
    "attach.stays",
    "spec.stdinOpen",
  ], async (name) => {
    const command = shell("while read line; do echo got $line; done; echo end; exec sleep 1000");
    await backend().apply(quickSpec(name, image, { command, stdinOpen: true }));
    const [first, second] = await Promise.all([attach(name), attach(name)]);
    const [one, two] = [person(first), person(second)];
    await one.types("a\n");
    await one.sees(/got a\n/);
    await two.sees(/got a\n/);
    first.detach();
    first.detach();
    assert.deepEqual(await one.end(), ["", -1]);
    await two.types("b\n");
    await two.sees(/got b\n/);
    second.detach();
    // Nor does the server's end.
    await under.reopen();
    const third = await attach(name);
    const three = person(third);
    await three.types("c\n");
    await three.sees(/^got c\n/);
    const fourth = await attach(name);
    await under.reopen();
    assert.deepEqual([await third.exit, await fourth.exit], [undefined, undefined]);
    const last = await attach(name);
    const five = person(last);
    await five.types("d\n");
    await five.sees(/^got d\n/);
    last.detach();
    assert.equal((await backend().status(name))!.state, "running");
  });

  withName(
    "attach: the end of the input ends neither the session nor the process",
    "left-typing",
    ["attach.pipe", "attach.end", "spec.stdinOpen"],
    async (name) => {
      const command = shell("while read line; do echo got $line; done; echo end; exec sleep 1000");
      await backend().apply(quickSpec(name, image, { command, stdinOpen: true }));
      await under.reopen();
      const ending = await attach(name);
      await ending.stdin!.getWriter().close();
      await person({ ...ending, stdin: undefined }).sees(/^end\n/);
      ending.detach();
      assert.equal((await backend().status(name))!.state, "running");
    },
  );

  withName(
    "attach: the end of the input is passed on, once for all",
    "ended",
    ["attach.pipe", "attach.end", "attach.stays", "spec.stdinOpen", "spec.restart"],
    async (name) => {
      const spec = quickSpec(name, image, {
        command: ["wc", "-c"],
        stdinOpen: true,
        restart: "no",
      });
      const data = new Uint8Array(3_000_000).fill(120);
      await backend().apply(spec);
      for (const again of [false, true]) {
        if (again) await backend().power(name, "start");
        const [session, other] = await Promise.all([attach(name), attach(name)]);
        const writer = session.stdin!.getWriter();
        const also = other.stdin!.getWriter();
        also.closed.catch(() => {});
        await also.write(data.subarray(0, 10));
        await writer.write(data);
        await writer.close();
        const counted = "3000010\n";
        assert.deepEqual(await Promise.all([text(session.stdout), session.exit]), [counted, 0]);
        assert.deepEqual(await Promise.all([text(other.stdout), other.exit]), [counted, 0]);
        await assert.rejects(also.write(data));
      }
    },
  );

  withName(
    "attach: a terminal has a size, takes keys, and does not end with what is typed",
    "attached-tty",
    ["spec.tty", "spec.stdinOpen"],
    async (name) => {
      const command = shell("echo hello; exec sh");
      await backend().apply(quickSpec(name, image, { command, tty: true, stdinOpen: true }));
      const session = await attach(name);
      assert.equal(await text(session.stderr), "");
      session.resize?.({ columns: 101, rows: 37 });
      const one = person(session);
      const sized = (size: string) =>
        `until [ "$(busybox stty size)" = "${size}" ]; do sleep 0.05; done`;
      assert.equal(session.resize === undefined, under.lacks["attach.size"] !== undefined);
      const wait = session.resize ? sized("37 101") : "true";
      await one.types(`${wait}; echo the""re\n`);
      await one.sees(/there\r\n/);
      await one.types("sh -c 'echo go\"\"ing; exec sleep 1000'\n");
      await one.sees(/going\r\n/);
      await one.types("\x03");
      await one.types("echo ended with $?\n");
      await one.sees(/ended with 130\r\n/);
      session.detach();
      const second = await attach(name);
      await second.stdin!.close();
      const third = await attach(name);
      const three = person(third);
      await three.types('echo still he""re; exit 7\n');
      await three.sees(/still here\r\n/);
      assert.equal((await three.end())[1], 7);
      assert.equal(await second.exit, 7);
      await second.stdout.cancel();
    },
  );

  withName("attach: who reads nothing holds up nobody", "stuck", ["exec"], async (name) => {
    const script =
      `${UNTIL_TOLD} echo ready; until_told go; seq 500000; echo last; exec sleep 1000`;
    await backend().apply(quickSpec(name, image, { command: shell(script) }));
    await logged(name, "ready");
    const stuck = await attach(name);
    const session = await attach(name);
    const reader = person(session);
    await tell(backend(), name, "go");
    await reader.sees(/last\n/);
    const lastLine = () => lines(backend(), name, { tail: 1 });
    await eventually("the log has it too", async () => (await lastLine())[0] === "last");
    // Somebody who leaves while nothing comes does not wait for anything.
    await Promise.all([session.stdout.cancel().catch(() => {}), stuck.stdout.cancel()]);
    stuck.detach();
    session.detach();
    assert.equal((await execute(backend(), name, { command: ["true"] })).code, 0);
  });
}
