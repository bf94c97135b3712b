import assert from "node:assert/strict";
import { openSubsystems, type Part, type Subsystem, subsystem } from "./subsystem.ts";
import { SUBSYSTEMS } from "./subsystems.ts";

const given: Part<number> = { name: "given" };

function listOf(said: string[], broken?: string): Subsystem[] {
  const open = <T>(name: string, handle: T): T => {
    if (name === broken) throw new Error(`${name} is broken`);
    said.push(`open ${name}`);
    return handle;
  };
  const a = subsystem({
    name: "a",
    needs: { given },
    open: ({ given }) => open("a", `a${given}`),
    close: (handle, { given }) => void said.push(`close ${handle} ${given}`),
  });
  const b = subsystem({
    name: "b",
    needs: { a },
    open: (parts) =>
      open("b", {
        of: parts,
        [Symbol.asyncDispose]: () => Promise.resolve(void said.push("close b")),
      }),
  });
  const c = subsystem({
    name: "c",
    needs: { b },
    open: ({ b }) => open("c", b.of.a),
    close: () => said.push("close c"),
  });
  return [a, b, c] as unknown as Subsystem[];
}

Deno.test("subsystems: opened in order, closed in reverse, handed what they need", async () => {
  const said: string[] = [];
  {
    await using opened = await openSubsystems(listOf(said), { given: 7 });
    assert.deepEqual(said, ["open a", "open b", "open c"]);
    assert.equal(opened.handle({ name: "a" }), "a7");
    assert.deepEqual((opened.handle({ name: "b" }) as { of: unknown }).of, { a: "a7" });
    assert.equal(opened.handle({ name: "c" }), "a7");
  }
  assert.deepEqual(said.slice(3), ["close c", "close b", "close a7 7"]);
});

Deno.test("subsystems: one that cannot be opened closes those before it", async () => {
  const said: string[] = [];
  await assert.rejects(openSubsystems(listOf(said, "c"), { given: 1 }), /c is broken/);
  assert.deepEqual(said, ["open a", "open b", "close b", "close a1 1"]);
  said.length = 0;
  await assert.rejects(openSubsystems(listOf(said, "a"), { given: 1 }), /a is broken/);
  assert.deepEqual(said, []);
});

Deno.test("subsystems: one that cannot be closed does not keep the others open", async () => {
  const said: string[] = [];
  const list = listOf(said);
  list[2] = { ...list[2], close: () => Promise.reject(new Error("c stays")) };
  const opened = await openSubsystems(list, { given: 1 });
  await assert.rejects(async () => await opened[Symbol.asyncDispose](), /c stays/);
  assert.deepEqual(said.slice(3), ["close b", "close a1 1"]);
});

Deno.test("subsystems: what is needed has to come before", async () => {
  const [a, b, c] = listOf([]);
  await assert.rejects(openSubsystems([b, a, c], { given: 1 }), /b needs a, which is not open/);
});

Deno.test("the server's subsystems: each needs what is given or open before it", () => {
  const open = new Set(["settings", "env", "log", "lifecycle", "host", "chosen", "stop"]);
  for (const { name, needs } of SUBSYSTEMS) {
    for (const { name: need } of Object.values(needs)) {
      assert.ok(open.has(need), `${name} needs ${need}`);
    }
    assert.ok(!open.has(name), `${name} stands there twice`);
    open.add(name);
  }
});
