import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import type { VolumeStatus } from "../../api/workload.ts";
import { startTestServer } from "../testing.ts";

const volume = (name: string, usedBy: string[] = []): VolumeStatus => ({
  name,
  driver: "local",
  labels: {},
  usedBy,
});

Deno.test("volumes and networks: listed by name, shown, removed; unknown, used and unsupported are told", async () => {
  const volumes = new Map([volume("z"), volume("data", ["web"])].map((one) => [one.name, one]));
  const server = await startTestServer({
    backend: {
      caps: {
        volumes: {
          list: () => Promise.resolve([...volumes.values()]),
          inspect: (name) => Promise.resolve(volumes.get(name)),
          remove: (name) => {
            if (volumes.get(name)?.usedBy.length) {
              return Promise.reject(
                new SvcError("conflict", `Cannot remove volume ${name}: web uses it`),
              );
            }
            return Promise.resolve(volumes.delete(name));
          },
        },
      },
    },
  });
  await using _ = server;
  const call = async (method: string, path: string) => {
    const response = await fetch(`${server.base}/.svc/v1${path}`, { method });
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  };
  assert.deepEqual((await call("GET", "/volumes")).body, [volume("data", ["web"]), volume("z")]);
  assert.deepEqual((await call("GET", "/volumes/data")).body, volume("data", ["web"]));
  const used = await call("DELETE", "/volumes/data");
  assert.deepEqual([used.status, used.body.detail], [
    409,
    "Cannot remove volume data: web uses it",
  ]);
  assert.equal((await call("DELETE", "/volumes/z")).status, 204);
  for (const method of ["GET", "DELETE"]) {
    const { status, body } = await call(method, "/volumes/z");
    assert.deepEqual([status, body.code], [404, "not_found"]);
    assert.match(body.detail, /svc made no such volume/);
  }
  for (const path of ["/networks", "/networks/n"]) {
    const { status, body } = await call("GET", path);
    assert.equal(status, 501);
    assert.match(body.detail, /network.*: the deploy backend fake cannot do it/);
  }
  assert.equal((await call("DELETE", "/networks/n")).status, 501);
});
