import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import type { FileAbility } from "../../deploy/caps.ts";
import { eventually } from "../../../test/waits.ts";
import { accessByName, startTestServer, STATUS } from "../testing.ts";

const stat = { name: "hosts", size: 3, mode: 0o100644, modified: "2026-01-01T00:00:00Z" };

async function fileServer(ability: Partial<FileAbility> = {}, perIdentity = false) {
  const asked: unknown[][] = [];
  const note = (what: string, name: string, path: string, instance?: string) =>
    void asked.push([what, name, path, instance]);
  const files: FileAbility = {
    stat: (name, path, { instance } = {}) => {
      note("stat", name, path, instance);
      return Promise.resolve(path === "/etc/hosts" ? stat : undefined);
    },
    read: (name, path, { instance } = {}) => {
      note("read", name, path, instance);
      return Promise.resolve({ stat, tar: new Blob(["archive"]).stream() });
    },
    write: async (name, path, tar, { instance } = {}) => {
      note("write", name, path, instance);
      asked.push([await new Response(tar as ReadableStream<Uint8Array<ArrayBuffer>>).text()]);
    },
    ...ability,
  };
  const server = await startTestServer({
    ...(perIdentity && { deps: { access: accessByName } }),
    backend: {
      status: (name) => Promise.resolve(name === "web" ? STATUS : undefined),
      caps: { files },
    },
  });
  const call = (path: string, init: RequestInit = {}) =>
    fetch(`${server.base}/.svc/v1/deployments${path}`, init);
  return { server, asked, call };
}

const accept = (type: string) => ({ headers: { accept: type } });

Deno.test("archive: the tar by default, what the file is where JSON is asked for", async () => {
  const { server, asked, call } = await fileServer();
  await using _ = server;
  const path = "/web/archive?path=/etc/hosts&instance=web-1";
  const tar = await call(path);
  assert.deepEqual([tar.headers.get("content-type"), await tar.text()], [
    "application/x-tar",
    "archive",
  ]);
  assert.deepEqual(await (await call(path, accept("application/json"))).json(), stat);
  assert.equal(
    await (await call(path, accept("application/x-tar, application/json"))).text(),
    "archive",
  );
  assert.deepEqual(asked, [
    ["read", "web", "/etc/hosts", "web-1"],
    ["stat", "web", "/etc/hosts", "web-1"],
    ["read", "web", "/etc/hosts", "web-1"],
  ]);
});

Deno.test("archive: the body is unpacked as it comes; paths and bodies that are none are refused", async () => {
  const { server, asked, call } = await fileServer();
  await using _ = server;
  const put = (query: string, body?: string, name = "web") =>
    call(`/${name}/archive${query}`, { method: "PUT", body });
  assert.equal((await put("?path=/srv", "archive")).status, 204);
  assert.deepEqual(asked.splice(0), [["write", "web", "/srv", undefined], ["archive"]]);
  const refusals: [Promise<Response>, number][] = [
    [put("?path=srv", "a"), 400],
    [put("", "a"), 400],
    [put("?path=%2Fa%00b", "a"), 400],
    [put("?path=/srv"), 400],
    [put("?path=/srv", "a", "wbe"), 404],
    [call("/web/archive?path=etc"), 400],
    [call("/web/archive?path=/none", accept("application/json")), 404],
    [call("/wbe/archive?path=/etc"), 404],
  ];
  for (const [answer, status] of refusals) {
    const refused = await answer;
    assert.equal(refused.status, status, await refused.text());
  }
  assert.deepEqual(asked, [["stat", "web", "/none", undefined]]);
});

Deno.test("archive: changes and the whole root, by an engine that tells them", async () => {
  const changes = [{ path: "/new", kind: "added" as const }];
  const { server, call } = await fileServer({
    changes: (name, { instance } = {}) =>
      Promise.resolve(name === "web" && instance === "web-1" ? changes : []),
    export: () => Promise.resolve(new Blob(["root"]).stream()),
  });
  await using _server = server;
  assert.deepEqual(await (await call("/web/changes?instance=web-1")).json(), changes);
  assert.equal(await (await call("/web/export")).text(), "root");
  assert.equal((await call("/nobody/changes")).status, 404);
  const plain = await fileServer();
  await using _plain = plain.server;
  for (const path of ["/web/changes", "/web/export"]) {
    assert.equal((await plain.call(path)).status, 501, path);
  }
});

Deno.test("archive: one that breaks half way is a broken answer, never a short one", async () => {
  const { server, call } = await fileServer({
    read: () => {
      const parts = async function* () {
        yield new Uint8Array(100_000);
        await Promise.resolve();
        throw new SvcError("unavailable", "Cannot go on");
      };
      return Promise.resolve({ stat, tar: ReadableStream.from(parts()) });
    },
  });
  await using _ = server;
  await assert.rejects(call("/web/archive?path=/etc").then((answer) => answer.bytes()));
});

Deno.test("archive: a client that goes away ends the reading, and a backend without files is 501", async () => {
  const ended = Promise.withResolvers<void>();
  const { server, call } = await fileServer({
    read: () => {
      const tar = new ReadableStream<Uint8Array>({
        pull: (controller) => controller.enqueue(new Uint8Array(65_536)),
        cancel: () => ended.resolve(),
      });
      return Promise.resolve({ stat, tar });
    },
  });
  await using _ = server;
  const reader = (await call("/web/archive?path=/big")).body!.getReader();
  await reader.read();
  await reader.cancel();
  await ended.promise;
  await using plain = await startTestServer({});
  for (const method of ["GET", "PUT"]) {
    const url = `${plain.base}/.svc/v1/deployments/web/archive?path=/x`;
    const answer = await fetch(url, { method, ...(method === "PUT" && { body: "a" }) });
    assert.equal(answer.status, 501);
    assert.match((await answer.json()).detail, /the deploy backend fake cannot do it/);
  }
});

Deno.test("archive: one caller has so many copies under way, and leaves some to others", async () => {
  const endless = () => new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(65_536)) });
  const read = () => Promise.resolve({ stat, tar: endless() });
  const { server, call } = await fileServer({ read }, true);
  await using _ = server;
  const copy = (name: string) => call("/web/archive?path=/", { headers: { "x-name": name } });
  const held = await Promise.all(Array.from({ length: 12 }, () => copy("greedy")));
  assert.deepEqual(new Set(held.map(({ status }) => status)), new Set([200]));
  const refused = await copy("greedy");
  assert.equal(refused.status, 503);
  assert.match((await refused.json()).detail, /Cannot copy files: 12 clients of yours do so/);
  held.push(await copy("other"));
  assert.equal(held.at(-1)!.status, 200);
  await held.shift()!.body!.cancel();
  await eventually("a turn again", async () => {
    const answer = await copy("greedy");
    await answer.body!.cancel();
    return answer.status === 200;
  });
  for (const { body } of held) await body!.cancel();
});
