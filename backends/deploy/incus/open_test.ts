import assert from "node:assert/strict";
import { join } from "node:path";
import { parseDeploySpec } from "../../../lib/api/deploy_spec_parse.ts";
import { silent } from "../../../lib/base/log.ts";
import { writeBaseLayout } from "../../../test/peers/base_image.ts";
import { layoutImages } from "../../../test/peers/layout_images.ts";
import { createIncusBackend } from "./open.ts";

/** A daemon of that kind, to the backend; gives what a deploy is refused with, and what the daemon was asked. */
async function refusedBy(server: Record<string, unknown>) {
  const folder = await Deno.makeTempDir({ prefix: "svc-incus-" });
  const asked: string[] = [];
  const socket = join(folder, "unix.socket");
  await using _daemon = Deno.serve({ path: socket, onListen: () => {} }, (request) => {
    asked.push(`${request.method} ${new URL(request.url).pathname}`);
    return Response.json({ type: "sync", metadata: server });
  });
  try {
    await using backend = await createIncusBackend({
      ...{ socket, project: "default", pool: "default", insecure: [], log: silent },
      dataDir: join(folder, "data"),
      images: { ...layoutImages(folder), resolve: () => assert.fail("an image was looked for") },
      config: { allowBindSources: [], allowPrivileged: [], pidsLimit: 0 },
    });
    const error = await backend.apply(parseDeploySpec("name: web\nimage: base:1\n"))
      .then(() => assert.fail("it was deployed"), (error) => error);
    assert.equal(await backend.status("web"), undefined);
    return { error, asked: new Set(asked) };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const ENVIRONMENT = { environment: { server_version: "6.2" } };

Deno.test("an Incus before 6.3 is refused up front, and asked to change nothing", async () => {
  const { error, asked } = await refusedBy({
    ...{ api_extensions: ["instances"], auth: "trusted" },
    ...ENVIRONMENT,
  });
  assert.equal(error.code, "unsupported");
  assert.match(error.message, /6\.2 runs no OCI images/);
  assert.match(error.help, /Incus 6\.3 or later/);
  assert.deepEqual([...asked].filter((call) => !call.startsWith("GET ")), []);
});

Deno.test("a daemon that does not trust the server's user is told apart", async () => {
  const { error } = await refusedBy({
    ...{ api_extensions: ["instance_oci"], auth: "untrusted" },
    ...ENVIRONMENT,
  });
  assert.equal(error.code, "denied");
  assert.match(error.help, /incus-admin/);
});

/** An Incus that makes everything but instances: their operation fails with those words. */
function failingInstances(words: string, asked: string[]) {
  const failed = { id: "op", status_code: 400, err: words };
  return (request: Request): Response => {
    const { pathname } = new URL(request.url);
    asked.push(`${request.method} ${pathname}`);
    const sync = (metadata: unknown) => Response.json({ type: "sync", status_code: 200, metadata });
    if (pathname === "/1.0") {
      return sync({ api_extensions: ["instance_oci"], auth: "trusted", ...ENVIRONMENT });
    }
    if (pathname.startsWith("/1.0/operations/")) return sync(failed);
    if (request.method !== "GET") {
      if (pathname !== "/1.0/instances") return sync({});
      const operation = "/1.0/operations/op";
      return Response.json({ type: "async", status_code: 202, operation, metadata: { id: "op" } }, {
        status: 202,
      });
    }
    if (/^\/1\.0\/(instances|networks|projects|storage-pools|profiles)$/.test(pathname)) {
      return sync([]);
    }
    if (/^\/1\.0\/(projects|profiles|storage-pools)\//.test(pathname)) {
      return sync({ name: "default", config: {}, devices: {}, driver: "dir", status: "Created" });
    }
    return Response.json({ type: "error", error: "not found", error_code: 404 }, { status: 404 });
  };
}

Deno.test("an Incus whose host has no umoci is told by name, and nothing is left", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-incus-" });
  const asked: string[] = [];
  const socket = join(folder, "unix.socket");
  const words = 'Failed to run: umoci unpack: exec: "umoci": executable file not found in $PATH';
  await using _daemon = Deno.serve(
    { path: socket, onListen: () => {} },
    failingInstances(words, asked),
  );
  try {
    await writeBaseLayout(join(folder, "layout"), "base");
    const images = layoutImages(join(folder, "layout"));
    await using backend = await createIncusBackend({
      ...{ socket, project: "default", pool: "default", insecure: [], log: silent },
      dataDir: join(folder, "data"),
      images: {
        ...images,
        resolve: async (...args) => ({
          ...await images.resolve("base", args[1]),
          name: "localhost:5000/base:1",
        }),
      },
      config: { allowBindSources: [], allowPrivileged: [], pidsLimit: 0 },
    });
    await assert.rejects(
      backend.apply(parseDeploySpec("name: web\nimage: localhost:5000/base:1\nnetworks: [none]\n")),
      (error: { code: string; message: string; help: string }) => {
        assert.equal(error.code, "prerequisite_missing", error.message);
        assert.match(error.message, /the daemon's host has no umoci/);
        assert.match(error.help, /install umoci there/);
        return true;
      },
    );
    assert.ok(asked.includes("POST /1.0/instances"), asked.join());
    assert.equal(await backend.status("web"), undefined);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
