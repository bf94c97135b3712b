/** Faults around the bare backend. */
import { requireTools } from "../e2e/harness.ts";
import { bareFixture, openBare } from "./bare_fixture.ts";
import { hostFaults } from "./host_faults.ts";

Deno.test({
  name: "bare backend among faults",
  ...requireTools({ root: true, commands: ["runc", "conmon", "iptables", "busybox"] }),
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    await using fixture = await bareFixture();
    await hostFaults(t, fixture, (settings) => openBare(fixture, settings));
  },
});
