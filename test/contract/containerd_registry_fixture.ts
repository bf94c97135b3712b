/** The registry view of a real containerd, by its handlers, for tests: one of each release, and a namespace a test. */
import assert from "node:assert/strict";
import { silent } from "../../lib/base/log.ts";
import { ContainerdClient } from "../../lib/containerd/client.ts";
import { ContainerdContent } from "../../lib/containerd/content.ts";
import { GarbageCollection } from "../../lib/containerd/garbage.ts";
import { Images } from "../../lib/containerd/image_api.ts";
import { openContainerdRegistry } from "../../lib/containerd/registry/mod.ts";
import { enginePush } from "../../lib/registry/engine_push.ts";
import { EngineView } from "../../lib/registry/engine_view.ts";
import { digest, registry } from "../../lib/registry/fixture_test.ts";
import { requireTools } from "../e2e/harness.ts";
import { type ContainerdPeer, startContainerd } from "../peers/containerd.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";

export const HOST = "localhost:5000";

export interface Version {
  name: string;
  unstable: boolean;
  ignore: boolean;
  peer?: ContainerdPeer & { home: string };
}

export const VERSIONS: Version[] = [
  { name: "containerd 1.6", unstable: false, files: [] },
  { name: "containerd 2", unstable: true, files: [UNSTABLE_READY] },
].map(({ files, ...version }) => ({
  ...version,
  ignore: requireTools({ root: true, commands: ["containerd"], files }).ignore,
}));

let namespaces = 0;

/** The daemons run while the tests of the file run that calls it. */
export function useContainerds(): void {
  Deno.test.beforeAll(async () => {
    await Promise.all(VERSIONS.map(async (version) => {
      if (version.ignore) return;
      const home = await Deno.makeTempDir({ prefix: "svc-ctd-registry-" });
      version.peer = { ...await startContainerd(home, version), home };
    }));
  });
  Deno.test.afterAll(async () => {
    for (const { peer } of VERSIONS) {
      if (!peer) continue;
      await peer[Symbol.asyncDispose]();
      await Deno.remove(peer.home, { recursive: true });
    }
  });
}

/** One server's registry in a namespace. */
export function server(client: ContainerdClient, owner = "me", host = HOST, maxNames?: number) {
  const opened = openContainerdRegistry({ client, owner, log: silent, maxNames });
  const { images } = opened;
  const view = new EngineView({
    images: () => Promise.resolve(images),
    isOwn: (other) => other === host,
    ownHost: () => host,
  });
  const writer = enginePush(view, () => Promise.resolve(images.writer));
  return {
    ...registry(undefined, { reader: view, writer }),
    view,
    writer,
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  };
}

export type Server = ReturnType<typeof server>;

/** Another namespace than any test has had. */
export const newNamespace = () => `registry-${namespaces++}`;

export async function fixture({ unstable, peer }: Pick<Version, "unstable" | "peer">) {
  assert.ok(peer, "useContainerds() has started it");
  const namespace = newNamespace();
  const client = new ContainerdClient({ address: peer.address, namespace });
  const first = server(client);
  const content = new ContainerdContent(client, "test");
  const garbage = new GarbageCollection(client, silent);
  return {
    ...first,
    peer,
    unstable,
    client,
    content,
    async names() {
      const { images } = await client.call(Images.list, {}, "Cannot list images");
      return images.map(({ name }) => name).sort();
    },
    has: async (text: string) => await content.info(digest(text)) !== undefined,
    /** Has containerd remove whatever nobody needs. */
    async collect() {
      garbage.collect();
      await garbage.settled();
    },
    async [Symbol.asyncDispose]() {
      await first[Symbol.asyncDispose]();
      await client[Symbol.asyncDispose]();
    },
  };
}

export type Fixture = Awaited<ReturnType<typeof fixture>>;

export function registryTest(title: string, work: (at: Fixture) => Promise<void>): void {
  for (const version of VERSIONS) {
    const { name, ignore } = version;
    Deno.test({ name: `${name}'s registry: ${title}`, ignore }, async () => {
      await using at = await fixture(version);
      await work(at);
    });
  }
}

export const push = async (at: Server, repository: string, tag: string, seed: string) => {
  const text = await at.image(repository, seed);
  const answer = await at.pushManifest(repository, tag, text);
  assert.equal(answer.status, 201, await answer.text());
  return text;
};

export const status = async (at: Server, method: string, path: string) => {
  const answer = await at.send(method, path);
  await answer.body?.cancel();
  return answer.status;
};

export async function assertBlob(at: Server, repository: string, text: string) {
  const path = `/v2/${repository}/blobs/${digest(text)}`;
  assert.equal(await (await at.send("GET", path)).text(), text);
}
