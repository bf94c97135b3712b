/** What every build executor has to do (lib/build/executor.ts). */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { Executor, Step } from "../../lib/build/executor.ts";

export interface ExecutorFixture extends AsyncDisposable {
  executor: Executor;
  /** A folder for roots and mounts of the tests. */
  folder: string;
  /** Ids of the containers that are there. */
  containers(): Promise<string[]>;
  /** Another executor on the same state, as a restarted server has it. */
  reopen(): Promise<Executor>;
}

export interface ExecutorSuite {
  name: string;
  ignore?: boolean;
  open(): Promise<ExecutorFixture>;
}

const BUSYBOX = "/bin/busybox";

/** A root with busybox and two users. */
export async function busyboxRoot(path: string): Promise<void> {
  for (const name of ["bin", "etc", "proc", "sys", "dev", "tmp", "root"]) {
    await Deno.mkdir(join(path, name), { recursive: true });
  }
  await Deno.copyFile(BUSYBOX, join(path, "bin/busybox"));
  const applets =
    "sh cat echo sleep id env ls mkdir rm touch pwd ip wc date stat cp mv true false head yes test ps grep sync";
  for (const name of applets.split(" ")) await Deno.symlink("busybox", join(path, "bin", name));
  await Deno.writeTextFile(
    join(path, "etc/passwd"),
    "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n",
  );
  await Deno.writeTextFile(join(path, "etc/group"), "root:x:0:\napp:x:1001:\nextra:x:1002:app\n");
}

let counter = 0;

function step(rootfs: string, script: string, extra: Partial<Step> = {}): Step {
  return {
    id: `contract-${Deno.pid}-${counter++}`,
    rootfs,
    args: ["/bin/sh", "-c", script],
    env: ["PATH=/bin"],
    workingDir: "/",
    user: "",
    mounts: [],
    tmpfs: [],
    network: "none",
    ...extra,
  };
}

export function executorContract(suite: ExecutorSuite): void {
  const contract = (
    name: string,
    work: (fixture: ExecutorFixture, root: string) => Promise<void>,
  ) =>
    Deno.test({
      name: `${suite.name}: ${name}`,
      ignore: suite.ignore,
      fn: async () => {
        await using fixture = await suite.open();
        const root = join(fixture.folder, "root");
        await busyboxRoot(root);
        await work(fixture, root);
        assert.deepEqual(await fixture.containers(), [], "a container is left behind");
      },
    });

  const output = async (executor: Executor, wanted: Step) => {
    const text = { stdout: "", stderr: "" };
    const { exitCode } = await executor.run(wanted, {
      onOutput: (stream, chunk) => text[stream] += new TextDecoder().decode(chunk),
    });
    return { exitCode, ...text };
  };

  contract("runs a command with its environment, folder and user", async ({ executor }, root) => {
    const script = "echo $GREETING; pwd; id -u; id -g; id -G; echo $HOME; echo oops >&2; exit 3";
    const result = await output(
      executor,
      step(root, script, {
        env: ["PATH=/bin", "GREETING=hello"],
        workingDir: "/tmp",
        user: "app",
      }),
    );
    assert.deepEqual(result, {
      exitCode: 3,
      stdout: "hello\n/tmp\n1000\n1001\n1001 1002\n/home/app\n",
      stderr: "oops\n",
    });
    assert.match((await output(executor, step(root, "id", { user: "1:2" }))).stdout, /uid=1 gid=2/);
    await assert.rejects(output(executor, step(root, "id", { user: "nobody-here" })), {
      code: "argument_invalid",
    });
  });

  contract("what is written stays in the root", async ({ executor }, root) => {
    assert.equal((await output(executor, step(root, "echo made > /made"))).exitCode, 0);
    assert.equal(await Deno.readTextFile(join(root, "made")), "made\n");
  });

  contract("commands that cannot start exit with 126 and 127", async ({ executor }, root) => {
    const missing = await output(executor, step(root, "", { args: ["no-such-program"] }));
    assert.equal(missing.exitCode, 127);
    assert.match(missing.stderr, /no-such-program/);
    const denied = await output(executor, step(root, "", { args: ["/etc/passwd"] }));
    assert.equal(denied.exitCode, 126);
    assert.match(denied.stderr, /passwd/);
  });

  contract("mounts: read-only, writable, tmpfs", async ({ executor, folder }, root) => {
    const source = join(folder, "source");
    await Deno.mkdir(source);
    await Deno.writeTextFile(join(source, "in"), "content\n");
    for (const name of ["ro", "rw", "memory"]) await Deno.mkdir(join(root, name));
    const script = "cat /ro/in; touch /ro/x || echo refused; echo out > /rw/out; " +
      "echo a > /memory/a; grep -c ' /memory tmpfs ' /proc/mounts";
    const result = await output(
      executor,
      step(root, script, {
        mounts: [
          { source, target: "/ro", readOnly: true },
          { source, target: "/rw", readOnly: false },
        ],
        tmpfs: [{ target: "/memory", size: 1 << 20 }],
      }),
    );
    assert.equal(result.stdout, "content\nrefused\n1\n", result.stderr);
    assert.equal(await Deno.readTextFile(join(source, "out")), "out\n");
    assert.deepEqual([...Deno.readDirSync(join(root, "memory"))], []);
  });

  contract("network none has only a loopback", async ({ executor }, root) => {
    const { stdout } = await output(executor, step(root, "ip -o link | wc -l"));
    assert.equal(stdout.trim(), "1");
    // The host's own namespace, whose interfaces come and go.
    const script = "ls -l /proc/self/ns/net";
    const host = await output(executor, step(root, script, { network: "host" }));
    assert.ok(host.stdout.includes(await Deno.readLink("/proc/self/ns/net")), host.stdout);
  });

  contract("an abort kills every process of the step", async ({ executor }, root) => {
    const abort = new AbortController();
    const script = "sleep 1000 & (sleep 1000 &) ; echo ready; sleep 1000";
    const wanted = step(root, script);
    const began = performance.now();
    await assert.rejects(
      executor.run(wanted, { onOutput: () => abort.abort(), signal: abort.signal }),
      { name: "AbortError" },
    );
    assert.ok(performance.now() - began < 500_000, "it waited for the processes");
    const early = new AbortController();
    setTimeout(() => early.abort(), 5);
    await assert.rejects(
      executor.run(step(root, "sleep 1000"), { onOutput: () => {}, signal: early.signal }),
      { name: "AbortError" },
    );
  });

  contract("a step has no more processes than it may", async ({ executor }, root) => {
    const script = "n=0; while [ $n -lt 40 ]; do sleep 1000 & n=$((n+1)); done; echo started all";
    const few = await output(executor, step(root, script, { processes: 20 }));
    assert.notEqual(few.exitCode, 0);
    assert.doesNotMatch(few.stdout, /started all/);
    assert.match(few.stderr, /can't fork|Resource temporarily unavailable/);
    const enough = await output(executor, step(root, script, { processes: 60 }));
    assert.deepEqual([enough.exitCode, enough.stdout], [0, "started all\n"], enough.stderr);
  });

  contract("a later server removes what a crashed one left", async (fixture, root) => {
    const { promise: ready, resolve } = Promise.withResolvers<void>();
    const running = fixture.executor.run(step(root, "echo ready; sleep 1000"), {
      onOutput: () => resolve(),
    });
    await ready;
    assert.equal((await fixture.containers()).length, 1);
    const later = await fixture.reopen();
    await later.recover();
    assert.deepEqual(await fixture.containers(), []);
    // The first one sees its step die.
    assert.notEqual((await running.catch(() => ({ exitCode: -1 }))).exitCode, 0);
    await later.recover();
  });
}
