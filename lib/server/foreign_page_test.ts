import assert from "node:assert/strict";
import { ownNames, refuseForeignPage } from "./foreign_page.ts";

const page = (origin: string | undefined, host: string) =>
  new Request("http://127.0.0.1/", { headers: { host, ...origin !== undefined && { origin } } });

const known = ownNames({
  hostname: "Build-7.corp.example",
  advertised: [
    undefined,
    "https://registry.example:5000",
    "svc.example",
    "http://[fd00::1]:5000/x",
  ],
});

Deno.test("pages: those of other sites are refused, programs are not asked", () => {
  refuseForeignPage(page(undefined, "anything.example"), known);
  refuseForeignPage(page("http://127.0.0.1:5000", "127.0.0.1:5000"), known);
  for (const origin of ["http://evil.example", "null", "rubbish", "http://127.0.0.1:5001"]) {
    assert.throws(() => refuseForeignPage(page(origin, "127.0.0.1:5000"), known), /another site/);
  }
});

Deno.test("pages: a name that somebody else gave this address is not the server's own", () => {
  const same = (host: string) => page(`http://${host}`, host);
  const own = [
    ...["localhost:5000", "app.localhost", "127.0.0.1", "192.0.2.7:5000", "[::1]:5000"],
    ...["[fe80::1]", "build-7", "build-7.local:5000", "build-7.corp.example:5000"],
    ...["registry.example:5000", "registry.example", "svc.example"],
  ];
  for (const host of own) refuseForeignPage(same(host), known);
  for (
    const host of [
      "evil.example:5000",
      "localhost.evil.example",
      "127.0.0.1.evil.example",
      "xbuild-7",
      "build-7.evil.example",
    ]
  ) assert.throws(() => refuseForeignPage(same(host), known), /is no name of this server/, host);
  // Where a credential is asked for, a page that has none gets nowhere.
  refuseForeignPage(same("evil.example:5000"));
});
