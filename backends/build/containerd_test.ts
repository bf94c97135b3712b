import assert from "node:assert/strict";
import { join } from "node:path";
import type { SvcError } from "../../lib/base/errors.ts";
import { closeIdleWorkers } from "../../lib/base/worker_pool.ts";
import { loadServerSettings } from "../../lib/config/server_options.ts";
import { silent } from "../../lib/base/log.ts";
import { ContainerdClient } from "../../lib/containerd/client.ts";
import { ownedBy, ownerLabels } from "../../lib/containerd/labels.ts";
import { openContainerdSnapshots } from "../../lib/containerd/snapshots.ts";
import { Snapshots, Version } from "../../lib/containerd/api.ts";
import { unmount } from "../../lib/sys/mount.ts";
import { mountsUnder } from "../../lib/sys/mountinfo.ts";
import { executorContract } from "../../test/contract/executor.ts";
import { snapshotterContract, type SnapshotterTest } from "../../test/contract/snapshotter.ts";
import { layersContract } from "../../test/contract/snapshotter_layers.ts";
import { requireTools } from "../../test/e2e/harness.ts";
import { type ContainerdPeer, startContainerd } from "../../test/peers/containerd.ts";
import { createContainerdExecutor } from "./containerd.ts";
import { selectWorker, WORKER_TABLES } from "./mod.ts";

const { ignore } = requireTools({
  root: true,
  commands: ["containerd", "runc"],
  files: ["/bin/busybox"],
});

let peer: ContainerdPeer;
let home: string;
let owners = 0;

Deno.test.beforeAll(async () => {
  if (ignore) return;
  home = await Deno.makeTempDir({ prefix: "svc-containerd-" });
  peer = await startContainerd(home);
});

Deno.test.afterAll(async () => {
  closeIdleWorkers();
  if (ignore) return;
  await peer[Symbol.asyncDispose]();
  for (const { target } of await mountsUnder(home)) unmount(target, { detach: true });
  await Deno.remove(home, { recursive: true });
});

const connect = () => new ContainerdClient({ address: peer.address, namespace: "svc" });

executorContract({
  name: "containerd",
  ignore,
  async open() {
    const folder = await Deno.makeTempDir({ prefix: "svc-executor-" });
    const client = connect();
    const owner = `contract${owners++}`;
    const open = () => createContainerdExecutor({ client, owner, pipes: `${folder}/pipes` });
    const executor = open();
    return {
      executor,
      folder,
      containers: () => executor.list(),
      reopen: () => Promise.resolve(open()),
      [Symbol.asyncDispose]: async () => {
        await executor.recover();
        await client[Symbol.asyncDispose]();
        await Deno.remove(folder, { recursive: true });
      },
    };
  },
});

/** What containerd does itself where snapshots are copies; the rest is the same code as for overlayfs. */
const OF_NATIVE = [
  /^a child sees/,
  /^the root folder keeps/,
  /^names:/,
  /^a restart finds/,
  /^folders a layer does not list/,
  /^the same changes give the same layer/,
];

for (const snapshotter of ["overlayfs", "native"]) {
  const test: SnapshotterTest = (title, fn) => {
    if (snapshotter === "native" && !OF_NATIVE.some((name) => name.test(title))) return;
    Deno.test({ name: `containerd's ${snapshotter}: ${title}`, ignore }, async () => {
      const base = await Deno.makeTempDir({ prefix: "svc-snapshots-" });
      const client = connect();
      const owner = `snapshots${owners++}`;
      await using cleanup = new AsyncDisposableStack();
      cleanup.use(client);
      const open = async () =>
        cleanup.use(
          await openContainerdSnapshots({
            client,
            snapshotter,
            root: `${base}/data`,
            owner,
            log: silent,
          }),
        );
      try {
        await Deno.mkdir(`${base}/work`);
        await fn({ snapshotter: await open(), folder: `${base}/work`, reopen: open });
      } finally {
        for (const { target } of await mountsUnder(base)) unmount(target, { detach: true });
        await Deno.remove(base, { recursive: true });
      }
    });
  };
  snapshotterContract(test);
  layersContract(test);
}

interface Opened {
  base: string;
  client: ContainerdClient;
  owner: string;
  open(): Promise<Awaited<ReturnType<typeof openContainerdSnapshots>>>;
}

const snapshotsTest = (title: string, fn: (opened: Opened) => Promise<void>) =>
  Deno.test({ name: `containerd: ${title}`, ignore }, async () => {
    const base = await Deno.makeTempDir({ prefix: "svc-snapshots-" });
    await using cleanup = new AsyncDisposableStack();
    const client = cleanup.use(connect());
    const owner = `own${owners++}`;
    const options = { client, snapshotter: "overlayfs", root: `${base}/data`, owner, log: silent };
    try {
      await fn({
        base,
        client,
        owner,
        open: async () => cleanup.use(await openContainerdSnapshots(options)),
      });
    } finally {
      for (const { target } of await mountsUnder(base)) unmount(target, { detach: true });
      await Deno.remove(base, { recursive: true });
    }
  });

async function namesIn({ client, owner }: Opened): Promise<string[]> {
  const names: string[] = [];
  const input = { snapshotter: "overlayfs", filters: [ownedBy(owner)] };
  for await (const { info } of client.stream(Snapshots.list, input, "Cannot list")) {
    names.push(...info.map(({ name }) => name));
  }
  return names.sort();
}

snapshotsTest("records and containerd's snapshots agree after a crash", async (opened) => {
  const { client, owner, open } = opened;
  const first = await open();
  for (const [name, parent] of [["base"], ["child", "base"], ["other"]]) {
    await first.commit(await first.prepare(`make-${name}`, parent), name);
  }
  await first.prepare("kept", "base");
  await first.prepare("cut", "base");
  const names = await namesIn(opened);
  assert.equal(names.length, 5);
  const remove = (key: string) =>
    client.call(Snapshots.remove, { snapshotter: "overlayfs", key }, "Cannot remove");
  // A commit that containerd finished and the server did not; a snapshot that somebody else removed;
  // one without a record.
  const prefix = `svc-${owner}`;
  const cut = names.find((name) => name.endsWith("5-active"))!;
  await client.call(
    Snapshots.commit,
    { snapshotter: "overlayfs", name: `${prefix}-5`, key: cut, labels: ownerLabels(owner) },
    "Cannot commit",
  );
  await remove(`${prefix}-3`);
  await client.call(
    Snapshots.prepare,
    { snapshotter: "overlayfs", key: `${prefix}-zz-active`, labels: ownerLabels(owner) },
    "Cannot prepare",
  );
  const second = await open();
  const found = (await Array.fromAsync(second.list())).map(({ name }) => name);
  assert.deepEqual(found.sort(), ["base", "child", "kept"]);
  assert.deepEqual(await namesIn(opened), [`${prefix}-1`, `${prefix}-2`, `${prefix}-4-active`]);
});

snapshotsTest(
  "what is removed is gone from the disk, what is kept survives a collection",
  async (opened) => {
    const snapshotter = await opened.open();
    const store = join(home, "root/io.containerd.snapshotter.v1.overlayfs/snapshots");
    const trees = () => [...Deno.readDirSync(store)].length;
    await snapshotter.commit(await snapshotter.prepare("a"), "kept");
    await snapshotter.commit(await snapshotter.prepare("b", "kept"), "gone");
    const before = trees();
    assert.equal(await snapshotter.prune("gone"), true);
    await snapshotter[Symbol.asyncDispose]();
    assert.ok(trees() < before, "containerd has the tree still");
    await (await snapshotter.view("kept", `${opened.base}/view`))[Symbol.asyncDispose]();
  },
);

Deno.test({ name: "containerd: a restarted one is connected to anew", ignore }, async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-containerd-" });
  try {
    await using other = await startContainerd(folder);
    await using client = new ContainerdClient({ address: other.address, namespace: "svc" });
    const ask = () => client.call(Version, {}, "Cannot read the version");
    assert.match((await ask()).version, /\d/);
    await other.stop();
    await assert.rejects(ask(), (error: SvcError) => {
      assert.match(error.code, /unavailable|prerequisite_missing/);
      return true;
    });
    await other.start();
    assert.match((await ask()).version, /\d/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test({ name: "containerd: what is missing is told", ignore }, async () => {
  const root = await Deno.makeTempDir({ prefix: "svc-worker-" });
  try {
    const parts = { root, state: `${root}/state`, runDir: `${root}/run`, log: silent };
    const open = ({ address = `${root}/none.sock`, snapshotter = "overlayfs" }) => {
      const { settings } = loadServerSettings([], {
        SVC_BUILD_WORKER: "containerd",
        SVC_CONTAINERD_ADDRESS: address,
        SVC_CONTAINERD_SNAPSHOTTER: snapshotter,
      }, WORKER_TABLES);
      return selectWorker(settings).open(parts);
    };
    await assert.rejects(open({}), (error: SvcError) => {
      assert.equal(error.code, "prerequisite_missing");
      assert.match(error.message, /none\.sock: there is no such socket$/);
      assert.match(error.help, /SVC_CONTAINERD_ADDRESS/);
      return true;
    });
    await assert.rejects(open({ address: peer.address, snapshotter: "zfs" }), {
      code: "unsupported",
    });
    await using worker = await open({ address: peer.address });
    assert.equal(worker.snapshotter!.driver, "overlay");
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
