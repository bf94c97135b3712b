import assert from "node:assert/strict";
import { BODIES, type Bodies, faultOf } from "./bodies.ts";

const WRONG: [keyof Bodies, unknown, RegExp][] = [
  ["ContainerCreate", [], /^expected object, received array$/],
  ["ContainerCreate", "x", /^expected object, received string$/],
  ["ContainerCreate", { Image: 5 }, /^Image: expected string, received number$/],
  ["ContainerCreate", { Cmd: [1] }, /^Cmd: expected a string or a list of strings$/],
  ["ContainerCreate", { Env: "A=1" }, /^Env: expected array, received string$/],
  ["ContainerCreate", { Labels: { a: 5 } }, /^Labels\.a: expected string, received number$/],
  ["ContainerCreate", { ExposedPorts: { "80/tcp": 1 } }, /^ExposedPorts\.80\/tcp: /],
  ["ContainerCreate", { HostConfig: { Memory: "1g" } }, /^HostConfig\.Memory: /],
  ["ContainerCreate", { HostConfig: { Memory: 1.5 } }, /^HostConfig\.Memory: .* whole number$/],
  ["ContainerCreate", { HostConfig: { CpuShares: "x" } }, /^HostConfig\.CpuShares: /],
  ["ContainerCreate", { HostConfig: { Mounts: [5] } }, /^HostConfig\.Mounts\.0: /],
  [
    "ContainerCreate",
    { HostConfig: { PortBindings: { "80/tcp": [{ HostPort: 80 }] } } },
    /^HostConfig\.PortBindings\.80\/tcp\.0\.HostPort: /,
  ],
  [
    "ContainerCreate",
    { NetworkingConfig: { EndpointsConfig: { a: { Aliases: "b" } } } },
    /^NetworkingConfig\.EndpointsConfig\.a\.Aliases: /,
  ],
  ["ContainerCreate", { Healthcheck: { Interval: "5s" } }, /^Healthcheck\.Interval: /],
  ["ContainerUpdate", { RestartPolicy: "always" }, /^RestartPolicy: /],
  ["ExecConfig", { Cmd: "ls" }, /^Cmd: /],
  ["ExecStart", { Detach: 1 }, /^Detach: /],
  ["NetworkCreate", { Name: 5 }, /^Name: /],
  ["NetworkCreate", { IPAM: { Config: [{ Subnet: "x" }] } }, /^IPAM\.Config\.0\.Subnet: .* subnet/],
  ["NetworkChange", { Container: 5 }, /^Container: /],
  ["VolumeCreate", { DriverOpts: [] }, /^DriverOpts: /],
  ["Login", { password: 5 }, /^password: expected string, received number$/],
];

Deno.test("bodies of docker's API: what is wrong is named", () => {
  for (const [form, body, expected] of WRONG) {
    const { error } = BODIES[form].safeParse(body);
    assert.ok(error, JSON.stringify(body));
    assert.match(faultOf(error), expected);
  }
});

Deno.test("bodies of docker's API are read as Go reads them", () => {
  const read = BODIES.ContainerCreate.parse({
    image: "a:1",
    Entrypoint: null,
    Labels: { a: null },
    Unknown: { kept: true },
    HostConfig: {
      MemorySwap: -1,
      Ulimits: null,
      PortBindings: { "80/tcp": null },
      // Above what JavaScript calls safe.
      CpuQuota: 2 ** 60,
    },
    NetworkingConfig: { EndpointsConfig: { net: null } },
  });
  assert.deepEqual(read, {
    Image: "a:1",
    Labels: { a: "" },
    Unknown: { kept: true },
    HostConfig: { MemorySwap: -1, PortBindings: { "80/tcp": null }, CpuQuota: 2 ** 60 },
    NetworkingConfig: { EndpointsConfig: { net: null } },
  });
});
