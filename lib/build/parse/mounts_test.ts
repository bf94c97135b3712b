import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import type { Mount } from "./ast.ts";
import { parseMount, resolveMount } from "./mounts.ts";

const resolve = (raw: string): Mount =>
  resolveMount(parseMount(raw, "D", 3), (word) => word.raw.replaceAll("$V", "value"), "D");
const owner = (mode: number) => ({ mode, uid: 0, gid: 0 });

const CASES: [raw: string, mount: Mount][] = [
  ["target=/a", { type: "bind", source: "/", target: "/a", readOnly: true }],
  ["", { type: "bind", source: "/", target: ".", readOnly: true }],
  ["from=b", { type: "bind", from: "b", source: "/", target: ".", readOnly: true }],
  ["dst=/a,rw,from=b,src=/c", {
    type: "bind",
    from: "b",
    source: "/c",
    target: "/a",
    readOnly: false,
  }],
  ["type=bind,destination=/a,readonly=false", {
    type: "bind",
    source: "/",
    target: "/a",
    readOnly: false,
  }],
  ["TYPE=Cache,target=/a", {
    type: "cache",
    id: "/a",
    target: "/a",
    readOnly: false,
    sharing: "shared",
    source: "/",
    ...owner(0o755),
  }],
  ["type=cache,target=/$V,id=$V,sharing=Private,mode=1777,uid=5,gid=6,ro", {
    type: "cache",
    id: "value",
    target: "/value",
    readOnly: true,
    sharing: "private",
    source: "/",
    mode: 0o1777,
    uid: 5,
    gid: 6,
  }],
  ["type=cache,dst=x//y/", {
    type: "cache",
    id: "x/y",
    target: "x//y/",
    readOnly: false,
    sharing: "shared",
    source: "/",
    ...owner(0o755),
  }],
  ["type=tmpfs,target=/t", { type: "tmpfs", target: "/t" }],
  ["type=tmpfs,target=/t,size=1g", { type: "tmpfs", target: "/t", size: 1 << 30 }],
  ["type=secret,id=k", {
    type: "secret",
    id: "k",
    target: "/run/secrets/k",
    required: false,
    ...owner(0o400),
  }],
  ["type=secret,target=/a/b/,required", {
    type: "secret",
    id: "b",
    target: "/a/b/",
    required: true,
    ...owner(0o400),
  }],
  ["type=secret,id=k,env=K", {
    type: "secret",
    id: "k",
    env: "K",
    required: false,
    ...owner(0o400),
  }],
  ["type=secret,src=k,env=K,target=/k", {
    type: "secret",
    id: "k",
    target: "/k",
    env: "K",
    required: false,
    ...owner(0o400),
  }],
  ["type=ssh", { type: "ssh", id: "default", required: false, ...owner(0o600) }],
  ['"target=/a,b",type=bind', { type: "bind", source: "/", target: "/a,b", readOnly: true }],
];

for (const [raw, mount] of CASES) {
  Deno.test(`RUN --mount=${raw}`, () => assert.deepEqual(resolve(raw), mount));
}

const ERRORS: [raw: string, message: RegExp][] = [
  ["type=volume,target=/x", /unknown mount type "volume"/],
  ["type=$V,target=/x", /unknown mount type "value"/],
  ["target", /option target needs a value/],
  ["target=/x,size=5", /option size does not go with type bind/],
  ["type=tmpfs,target=/x,size=big", /option size is bytes/],
  ["type=cache,target=/x,sharing=loked", /did you mean locked\?/],
  ["type=cache,target=/x,mode=888", /option mode is an octal number/],
  ["type=cache,target=/x,uid=4294967296", /option uid is a number/],
  ["type=cache,target=/x,uid=-1", /option uid is a number/],
  ["type=secret", /needs id=NAME or target=PATH/],
  ["type=secret,id=a,source=b", /option id and option source are the same/],
  ["type=secret,id=a,required=maybe", /option required is true or false/],
  ["target=/x,ro=2", /option readonly is true or false/],
  ["target=/x,from=$V", /takes no variables/],
];

for (const [raw, message] of ERRORS) {
  Deno.test(`RUN --mount=${raw} is refused`, () => {
    assert.throws(() => resolve(raw), (error) => {
      assert.ok(error instanceof SvcError);
      assert.equal(error.code, "dockerfile_invalid");
      assert.match(error.message, /^Cannot parse RUN on line 3 of D: --mount=/);
      assert.match(error.message, message);
      return true;
    });
  });
}

Deno.test("a mount with variables is checked once they are known, not before", () => {
  const mount = parseMount("type=cache,target=/x,mode=$MODE", "D", 1);
  assert.equal(mount.type, "cache");
  assert.throws(() => resolveMount(mount, () => "cache"), /option mode is an octal number/);
});
