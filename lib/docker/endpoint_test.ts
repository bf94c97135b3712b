import { deepStrictEqual, ok, throws } from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { dockerEndpoint, type EndpointSettings } from "./endpoint.ts";

Deno.test("the endpoint is docker's DOCKER_HOST", () => {
  const of = (settings: EndpointSettings) => {
    const { address: _, ...rest } = dockerEndpoint(settings);
    return rest;
  };
  deepStrictEqual(of({}), { kind: "unix", path: "/var/run/docker.sock" });
  deepStrictEqual(of({ host: "unix:///run/x.sock" }), { kind: "unix", path: "/run/x.sock" });
  deepStrictEqual(of({ host: "tcp://h" }), { kind: "tcp", host: "h", port: 2375 });
  deepStrictEqual(of({ host: "http://h:1/" }), { kind: "tcp", host: "h", port: 1 });
  deepStrictEqual(of({ host: "tcp://[::1]:99" }), { kind: "tcp", host: "::1", port: 99 });
  deepStrictEqual(of({ host: "tcp://h", tls: true, certPath: "/c" }), {
    kind: "tcp",
    host: "h",
    port: 2376,
    tls: { ca: "/c/ca.pem", cert: "/c/cert.pem", key: "/c/key.pem" },
  });
  deepStrictEqual(of({ host: "ssh://u@h:22/run/p.sock" }), {
    kind: "ssh",
    user: "u",
    host: "h",
    port: 22,
    socket: "/run/p.sock",
  });
  deepStrictEqual(of({ host: "ssh://h" }), {
    kind: "ssh",
    host: "h",
    socket: "/var/run/docker.sock",
  });
  // TLS is for tcp alone.
  deepStrictEqual(of({ host: "unix:///s", tls: true }), { kind: "unix", path: "/s" });
});

Deno.test("what is no endpoint is refused with the variable's name", () => {
  const bad = [
    ...["unix://", "unix://relative", "tcp://", "tcp://h/path", "tcp://a:b:c", "ssh://", "h:1"],
    ...["ssh://-oProxyCommand=x", "npipe:////./pipe/docker_engine", "fd://", "tcp://u@h"],
  ];
  for (const host of bad) {
    throws(() => dockerEndpoint({ host }), (error) => {
      ok(error instanceof SvcError && error.code === "config_invalid", `${host}: ${error}`);
      return error.message.startsWith("Cannot use DOCKER_HOST");
    }, host);
  }
  throws(() => dockerEndpoint({ host: "tcp://h", tls: true }), /DOCKER_CERT_PATH/);
});
