import assert from "node:assert/strict";
import { SvcError } from "../../../lib/base/errors.ts";
import { podmanEndpoint } from "./endpoint.ts";

const endpoint = (socket: string) => podmanEndpoint({ socket, service: false });

Deno.test("the socket is a path, or a URL of unix, tcp or ssh", () => {
  const path = "/run/podman/podman.sock";
  assert.deepEqual(endpoint(path), { kind: "unix", address: path, path });
  assert.deepEqual(endpoint(`unix://${path}`), { kind: "unix", address: `unix://${path}`, path });
  assert.deepEqual(endpoint("tcp://podman.test:8080"), {
    kind: "tcp",
    address: "tcp://podman.test:8080",
    host: "podman.test",
    port: 8080,
  });
  assert.deepEqual(endpoint("ssh://me@far:2222/run/user/1000/podman/podman.sock"), {
    kind: "ssh",
    address: "ssh://me@far:2222/run/user/1000/podman/podman.sock",
    user: "me",
    host: "far",
    port: 2222,
    socket: "/run/user/1000/podman/podman.sock",
  });
  for (const address of ["ssh://root@far", "ssh://root@far/"]) {
    assert.deepEqual(endpoint(address), {
      kind: "ssh",
      address,
      user: "root",
      host: "far",
      socket: path,
    });
  }
});

Deno.test("neither a socket nor a service, or both, or another form is refused", () => {
  const refused = (socket: string, service: boolean, words: RegExp) =>
    assert.throws(
      () => podmanEndpoint({ socket, service }),
      (error) =>
        error instanceof SvcError && error.code === "config_invalid" && words.test(error.message),
    );
  refused("", false, /neither SVC_PODMAN_SOCKET nor SVC_PODMAN_SERVICE is set/);
  refused("/run/podman/podman.sock", true, /exclude each other/);
  for (
    const socket of ["podman.sock", "http://podman:80", "npipe:////./pipe/x", "unix://", "ssh://"]
  ) {
    refused(socket, false, /SVC_PODMAN_SOCKET/);
  }
  assert.equal(podmanEndpoint({ socket: "", service: true }), undefined);
});
