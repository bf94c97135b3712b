import assert from "node:assert/strict";
import { Person } from "../../test/fixtures/person.ts";
import { close, open } from "./fd.ts";
import { O } from "./files.ts";
import { runOnTerminal, type TerminalOptions } from "./pty.ts";
import { rawMode } from "./termios.ts";

const ignore = Deno.build.os !== "linux";
const SIZE = { columns: 101, rows: 37 };

const sh = async (script: string, more: Partial<TerminalOptions> = {}) =>
  await runOnTerminal("sh", ["-c", script], { size: SIZE, ...more });

/** Names of what is open and a terminal's. */
function terminals(): string[] {
  const folder = "/proc/self/fd";
  return Array.from(Deno.readDirSync(folder)).flatMap(({ name }) => {
    try {
      const target = Deno.readLinkSync(`${folder}/${name}`);
      return /ptmx|pts/.test(target) ? [`${name} ${target}`] : [];
    } catch {
      return []; // closed meanwhile
    }
  });
}

/** The same terminals are open after it as before. */
function terminalTest(name: string, fn: () => Promise<void>): void {
  Deno.test({
    name,
    ignore,
    fn: async () => {
      const before = terminals();
      await fn();
      assert.deepEqual(terminals(), before);
    },
  });
}

terminalTest("pty: a controlling terminal of the size that was asked for", async () => {
  const person = new Person(await sh("tty; stty size; test -c /dev/tty && : > /dev/tty; exit 5"));
  await person.sees(/\/dev\/pts\/\d+\r\n37 101\r\n/);
  assert.deepEqual(await person.end(), ["", 5]);
});

terminalTest("pty: typed lines, Ctrl-D, a changed size told by SIGWINCH", async () => {
  const process = await sh(
    `trap 'stty size' WINCH; echo ready; while read line; do echo "<$line>"; done; echo end`,
  );
  const person = new Person(process);
  await person.sees(/ready\r\n/);
  await person.types("one\n");
  await person.sees(/one\r\n<one>\r\n/);
  process.resize({ columns: 200, rows: 50 });
  await person.types("two\n");
  await person.sees(/50 200\r\n/);
  await person.types("\x04");
  await person.sees(/end\r\n/);
  assert.deepEqual(await person.end(), ["", 0]);
});

terminalTest("pty: Ctrl-C and a signal end it with 128 and their number", async () => {
  const interrupted = new Person(await sh("echo ready; exec sleep 1000"));
  await interrupted.sees(/ready\r\n/);
  await interrupted.types("\x03");
  assert.deepEqual(await interrupted.end(), ["^C", 130]);
  const process = await sh("echo ready; exec sleep 1000");
  const killed = new Person(process);
  await killed.sees(/ready\r\n/);
  process.kill("SIGKILL");
  assert.deepEqual(await killed.end(), ["", 137]);
});

terminalTest(
  "pty: the last words are not lost, however many and however late they are read",
  async () => {
    const process = await sh("seq 100000; printf last");
    const person = new Person(process);
    const [text] = await person.end();
    const numbers = Array.from({ length: 100_000 }, (_, i) => `${i + 1}\r\n`).join("");
    assert.ok(text === `${numbers}last`);
    const late = await sh("printf few");
    assert.equal(await late.exit, 0);
    assert.deepEqual(await new Person(late).end(), ["few", 0]);
  },
);

terminalTest(
  "pty: raw keys from the start; a huge paste arrives whole, waiting for its reader",
  async () => {
    const process = await sh("echo ready; head -c 3000000 | sha256sum", { rawKeys: true });
    const person = new Person(process);
    await person.sees(/ready\r\n/);
    const paste = "all work and no play \x03\x04\x1a\r\n".repeat(120_000).slice(0, 3_000_000);
    await person.types(paste);
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(paste));
    const [text, exit] = await person.end();
    assert.deepEqual([text, exit], [`${new Uint8Array(digest).toHex()}  -\r\n`, 0]);
  },
);

terminalTest("pty: what is typed to nobody fails; nothing waits for it", async () => {
  const process = await sh("echo ready; read line; exit 3", { rawKeys: true });
  const person = new Person(process);
  await person.sees(/ready\r\n/);
  // More than a terminal holds: the write waits until the program has gone.
  const typed = person.types("\n" + "x".repeat(1_000_000));
  const [ended, written] = await Promise.allSettled([person.end(), typed]);
  assert.deepEqual(ended, { status: "fulfilled", value: ["", 3] });
  assert.equal((written as PromiseRejectedResult).reason.code, "EIO");
});

terminalTest("pty: no program, no terminal", async () => {
  const nothing = new Person(await runOnTerminal("/nonexistent", [], { size: SIZE }));
  const [text, exit] = await nothing.end();
  assert.match(text, /nonexistent/);
  assert.notEqual(exit, 0);
});

Deno.test({
  name: "pty: cancelling the output hangs up",
  ignore,
  // The thread that waits for descriptors leaves within its turn.
  sanitizeOps: false,
  fn: async () => {
    const before = terminals();
    const process = await sh("trap 'exit 9' HUP; echo ready; while :; do sleep 0.05; done");
    const person = new Person(process);
    await person.sees(/ready\r\n/);
    assert.equal(await person.leaves(), 9);
    assert.deepEqual(terminals(), before);
    process.resize(SIZE);
  },
});

Deno.test({
  name: "raw mode is taken back as it was; what is not a terminal has none",
  ignore,
  fn: async () => {
    const script = `import { rawMode } from ${JSON.stringify(import.meta.resolve("./termios.ts"))};
      const stty = () => new TextDecoder().decode(new Deno.Command("stty", { args: ["-g"],
        stdin: "inherit" }).outputSync().stdout);
      const before = stty();
      const restore = rawMode(0);
      const raw = stty();
      new Deno.Command("stty", { args: ["raw", "-echo", "-iexten"], stdin: "inherit" }).outputSync();
      const theirs = stty();
      restore();
      console.log("differs:", String([before !== raw, raw === theirs, stty() === before]));`;
    const process = await runOnTerminal(Deno.execPath(), ["eval", "--no-check", script], {
      size: SIZE,
    });
    const [text, exit] = await new Person(process).end();
    assert.match(text, /differs: true,true,true\r\n$/);
    assert.equal(exit, 0);
    const file = open("/dev/null", O.RDWR);
    try {
      assert.throws(() => rawMode(file), { code: "ENOTTY" });
    } finally {
      close(file);
    }
  },
});

Deno.test({
  name: "raw mode is taken back by a process that ends at once, or fails",
  ignore,
  fn: async () => {
    const from = (path: string) => JSON.stringify(import.meta.resolve(path));
    const script = `import { systemIo } from ${from("../base/terminal.ts")};
      import { rawMode } from ${from("./termios.ts")};
      const signal = new AbortController().signal;
      const raw = () => Promise.resolve(rawMode(0));
      const io = systemIo({ signal, rawMode: raw, onHangup: () => () => {} });
      await io.stdin.raw();
      console.log("is raw");
      WAY`;
    const ways = ["Deno.exit(3)", "setTimeout(() => { throw 1 })", "Promise.reject(1)"];
    const around =
      `before=$(stty -g); "$DENO" eval --no-check "$SCRIPT"; [ "$before" = "$(stty -g)" ]`;
    await Promise.all(ways.map(async (way) => {
      const env = {
        ...Deno.env.toObject(),
        DENO: Deno.execPath(),
        SCRIPT: script.replace("WAY", way),
      };
      const process = await runOnTerminal("sh", ["-c", around], { size: SIZE, env });
      const [text, exit] = await new Person(process).end();
      assert.match(text, /is raw/);
      assert.equal(exit, 0, `${way}: ${text}`);
    }));
  },
});
