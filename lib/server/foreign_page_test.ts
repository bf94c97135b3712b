import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
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

const OWN = [
  ...["localhost:5000", "app.localhost", "127.0.0.1", "192.0.2.7:5000", "[::1]:5000"],
  ...["[fe80::1]", "build-7", "build-7.local:5000", "build-7.corp.example:5000"],
  ...["registry.example:5000", "registry.example", "svc.example"],
];

/** Names that others gave this address. */
const FOREIGN = [
  ...["evil.example:5000", "localhost.evil.example", "127.0.0.1.evil.example"],
  ...["xbuild-7", "build-7.evil.example", ""],
];

Deno.test("pages: a name that somebody else gave this address is not the server's own", () => {
  const same = (host: string) => page(`http://${host}`, host);
  for (const host of OWN) refuseForeignPage(same(host), known);
  for (const host of FOREIGN.filter((host) => host !== "")) {
    assert.throws(() => refuseForeignPage(same(host), known), /is not a name of this server/, host);
  }
  // Where a credential is asked for, a page that has none gets nowhere.
  refuseForeignPage(same("evil.example:5000"));
});

Deno.test("pages: a browser's GET, which names no origin, is answered under the server's own names alone", () => {
  const browsers: Record<string, string>[] = [
    { "user-agent": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0" },
    { "sec-fetch-site": "same-origin" },
    { "sec-fetch-dest": "document" },
  ];
  const ask = (headers: Record<string, string>) => () =>
    refuseForeignPage(new Request("http://127.0.0.1/v2/_catalog", { headers }), known);
  for (const headers of browsers) {
    for (const host of OWN) ask({ host, ...headers })();
    for (const host of FOREIGN) {
      assert.throws(ask({ host, ...headers }), (error) => {
        assert(error instanceof SvcError);
        assert.equal(error.status, 421);
        assert.match(error.help, /SVC_ADVERTISE_REGISTRY/);
        return true;
      });
    }
  }
  for (const agent of ["docker/28.0 go/go1.23", "skopeo/1.9.3", "Deno/2.9.6", "curl/8.0", ""]) {
    for (const host of [...OWN, ...FOREIGN]) ask({ host, "user-agent": agent })();
  }
});
