import assert from "node:assert/strict";
import { loadServerConfig } from "../server_options.ts";

Deno.test("server options: what builds may ask for", () => {
  const entitlements = (text: string) =>
    loadServerConfig([], { SVC_BUILD_ENTITLEMENTS: text }).config.buildEntitlements;
  const some = [
    "security.insecure",
    "network.host",
    "device=vendor.example/gpu=0",
    "device=vendor.example/tpu",
  ];
  assert.deepEqual(entitlements(some.join(", ")), some);
  assert.deepEqual(entitlements("device"), ["device"]);
  for (const wrong of ["device=", "network", "device=a,alias=b"]) {
    assert.throws(() => entitlements(wrong), { code: "config_invalid" }, wrong);
  }
});
