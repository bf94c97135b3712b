import assert from "node:assert/strict";
import { join } from "node:path";
import { hasOpenssl, makeAuthority } from "../../../test/peers/pki.ts";
import { readCertificates } from "../../base/certificates.ts";
import { SvcError } from "../../base/errors.ts";
import {
  configuredAuthority,
  generatedAuthority,
  type IngressAuthority,
} from "./ingress_authority.ts";

const ignore = !hasOpenssl();

async function openssl(...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command("openssl", {
    args,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).output();
  const text = new TextDecoder().decode(stdout);
  assert.ok(success, `openssl ${args.join(" ")}: ${text}${new TextDecoder().decode(stderr)}`);
  return text;
}

async function inFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** openssl takes the leaf for the name, by the root alone. */
async function accepted(
  folder: string,
  authority: IngressAuthority,
  root: string,
  name: string,
  { strict = true } = {},
): Promise<void> {
  const { certificate } = authority.issue([name], [Uint8Array.of(127, 0, 0, 1)]);
  const [leaf, ...rest] = readCertificates(certificate);
  await Deno.writeTextFile(join(folder, "leaf"), leaf.toString());
  await Deno.writeTextFile(join(folder, "rest"), rest.map((one) => one.toString()).join("\n"));
  const flags = [
    ...strict ? ["-x509_strict"] : [],
    "-purpose",
    "sslserver",
    "-verify_hostname",
    name,
  ];
  const way = ["-CAfile", root, "-untrusted", join(folder, "rest"), join(folder, "leaf")];
  await openssl("verify", ...flags, ...way);
  await openssl("verify", "-verify_ip", "127.0.0.1", ...way);
}

Deno.test({
  name: "ingress authority: made once, private, what it signs is taken by openssl",
  ignore,
}, async () => {
  await inFolder(async (folder) => {
    const place = join(folder, "svc", "ingress-ca");
    // Several svc at once: one authority.
    const all = await Promise.all([1, 2, 3].map(() => generatedAuthority(place)));
    const [first] = all;
    assert.equal(first.path, join(place, "ca.pem"));
    assert.equal(first.generated, true);
    for (const one of [...all, await generatedAuthority(place)]) {
      await accepted(folder, one, join(place, "ca.pem"), "app.example.com");
    }
    const long = `${"a".repeat(60)}.${"b".repeat(60)}.example`;
    await accepted(folder, first, join(place, "ca.pem"), long);
    assert.deepEqual([...Deno.readDirSync(join(folder, "svc"))].map(({ name }) => name), [
      "ingress-ca",
    ]);
    if (Deno.build.os === "windows") return;
    assert.equal((await Deno.stat(join(place, "ca.key"))).mode! & 0o777, 0o600);
    assert.equal((await Deno.stat(place)).mode! & 0o777, 0o700);
  });
});

Deno.test(
  { name: "ingress authority: what is kept and cannot be used is said", ignore },
  async () => {
    await inFolder(async (folder) => {
      const refused = async (place: string, why: RegExp) => {
        await assert.rejects(generatedAuthority(place), (error) => {
          assert.ok(error instanceof SvcError);
          assert.match(error.message, /^Cannot use the ingress authority in /);
          assert.match(error.message, why);
          assert.match(error.help, /remove that folder/);
          return true;
        });
      };
      const place = join(folder, "ca");
      await generatedAuthority(place);
      await Deno.chmod(join(place, "ca.key"), 0o644);
      await refused(place, /others may read its key/);
      await Deno.chmod(join(place, "ca.key"), 0o600);
      await Deno.writeTextFile(join(place, "ca.key"), "rubbish");
      await refused(place, /no private key in PEM/);
      await Deno.remove(join(place, "ca.key"));
      await refused(place, /./);
      await Deno.writeTextFile(join(folder, "file"), "");
      await refused(join(folder, "file"), /./);
    });
  },
);

Deno.test({
  name: "ingress authority: ca-file and ca-key-file of each kind of key, and one below another",
  ignore,
}, async () => {
  await inFolder(async (folder) => {
    const kinds = {
      rsa: ["rsa:2048"],
      ec: ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
      ec384: ["ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
      ed25519: ["ed25519"],
    };
    for (const [name, kind] of Object.entries(kinds)) {
      const pair = { certificate: join(folder, `${name}.pem`), key: join(folder, `${name}.key`) };
      await openssl(
        ...[
          "req",
          "-x509",
          "-newkey",
          ...kind,
          "-nodes",
          "-days",
          "30",
          "-subj",
          `/CN=${name}/O=é`,
        ],
        ...["-utf8", "-keyout", pair.key, "-out", pair.certificate],
        ...["-addext", "keyUsage=critical,keyCertSign"],
      );
      const authority = await configuredAuthority(pair, (text) => assert.fail(text));
      assert.equal(authority.generated, false);
      await accepted(folder, authority, pair.certificate, "app.example.com");
    }
    const root = await makeAuthority(folder);
    const below = await root.subordinate("below");
    const pair = { certificate: below.cert, key: below.key };
    const authority = await configuredAuthority(pair, (text) => assert.fail(text));
    await accepted(folder, authority, root.cert, "app.example.com", { strict: false });
  });
});

Deno.test({
  name: "ingress authority: ca-file and ca-key-file that are no good are named, old ones warned of",
  ignore,
}, async () => {
  await inFolder(async (folder) => {
    const root = await makeAuthority(folder);
    const leaf = await root.issue("leaf");
    const old = await root.subordinate("old", {
      notBefore: "20200101000000Z",
      notAfter: "20200201000000Z",
    });
    await Deno.writeTextFile(join(folder, "text"), "text");
    const none = () => {};
    const refused = (certificate: string, key: string, why: RegExp) =>
      assert.rejects(configuredAuthority({ certificate, key }, none), (error) => {
        assert.ok(error instanceof SvcError);
        assert.equal(error.code, "config_invalid");
        assert.match(error.message, why);
        return true;
      });
    await refused(
      leaf.cert,
      leaf.key,
      /conduit\.ingress\.ca-file: .* not the certificate of an auth/,
    );
    await refused(root.cert, leaf.key, /conduit\.ingress\.ca-key-file: .* does not belong/);
    await refused(join(folder, "text"), root.key, /conduit\.ingress\.ca-file: .* no certificate/);
    await refused(root.cert, join(folder, "text"), /conduit\.ingress\.ca-key-file: .* no private/);
    await refused(join(folder, "none"), root.key, /conduit\.ingress\.ca-file: .* no such file/);
    await refused(root.cert, "/dev/zero", /conduit\.ingress\.ca-key-file: .* too long/);
    const told: string[] = [];
    await Deno.chmod(old.key, 0o644);
    await configuredAuthority({ certificate: old.cert, key: old.key }, (text) => told.push(text));
    assert.match(
      told.join("\n"),
      /ca-file: the certificate has expired[^]*ca-key-file: .* by others/,
    );
  });
});
