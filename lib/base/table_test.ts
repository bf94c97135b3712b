import { equal } from "node:assert/strict";
import { formatAge, renderTable } from "./table.ts";

Deno.test("columns are aligned, nothing trails, and cells cannot drive the terminal", () => {
  equal(
    renderTable(["NAME", "X"], [["a\x1b[2J", "1"], ["bb", ""]]),
    "NAME    X\na [2J   1\nbb\n",
  );
  equal(renderTable(["A", "B"], []), "A   B\n");
});

Deno.test("ages", () => {
  const ages = [-5, 0, 119, 120, 7199, 7200, 172_799, 172_800].map((s) => formatAge(s * 1000));
  equal(ages.join(" "), "0s 0s 119s 2m 119m 2h 47h 2d");
});
