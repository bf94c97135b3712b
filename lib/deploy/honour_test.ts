import assert from "node:assert/strict";
import { validateDeploySpec } from "../api/deploy_spec_parse.ts";
import { refuseIfStrict, unhonoured } from "./honour.ts";

const spec = (more: Record<string, unknown>) =>
  validateDeploySpec({ name: "web", image: "app", ...more });

Deno.test("set fields are reported, with their place in a list; unset and empty ones are not", () => {
  const fields = { egress: true, "volumes.size": "no limits", "resources.cpuLimit": true } as const;
  const full = spec({
    egress: { mode: "x" },
    volumes: ["a:/a", { name: "b", target: "/b", size: "1Mi" }],
    resources: { cpuLimit: 1 },
  });
  assert.deepEqual(unhonoured(full, fields, "bare"), [
    "egress: not honoured by the bare backend",
    "volumes[1].size: no limits",
    "resources.cpuLimit: not honoured by the bare backend",
  ]);
  assert.deepEqual(unhonoured(spec({ egress: {} }), fields, "bare"), []);
});

Deno.test("strict refuses where there is something to warn of", () => {
  refuseIfStrict(spec({}), ["a: b"]);
  refuseIfStrict(spec({ strict: true }), []);
  assert.throws(() => refuseIfStrict(spec({ strict: true }), ["a: b"]), {
    code: "unsupported",
    message: /Cannot deploy web: a: b/,
  });
});
