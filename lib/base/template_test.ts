import assert from "node:assert/strict";
import { fillTemplate, unknownPlaceholders } from "./template.ts";

Deno.test("templates: placeholders are filled in, others are told", () => {
  const values = { name: "web", port: "80" };
  assert.equal(
    fillTemplate("https://{name}.example:{port}/{name}", values),
    "https://web.example:80/web",
  );
  assert.equal(fillTemplate("{}{toString}{name}", values), "{}{toString}web");
  assert.deepEqual(unknownPlaceholders("{name}{nmae}{}", Object.keys(values)), ["nmae", ""]);
  // A value is not a template.
  assert.equal(fillTemplate("{name}", { name: "{port}", port: "1" }), "{port}");
});
