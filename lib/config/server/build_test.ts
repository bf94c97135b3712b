import assert from "node:assert/strict";
import { loadServerSettings } from "../server_options.ts";
import { BUILD } from "./build.ts";

Deno.test("server options: what builds may ask for", () => {
  const entitlements = (text: string) =>
    loadServerSettings([], { SVC_BUILD_ENTITLEMENTS: text }).settings.of(BUILD).buildEntitlements;
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
