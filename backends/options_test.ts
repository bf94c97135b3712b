import assert from "node:assert/strict";
import { type ErrorCode, SvcError } from "../lib/base/errors.ts";
import { loadServerSettings, serverTables } from "../lib/config/server_options.ts";
import { buildConcurrency, lazyReading } from "../lib/config/server/build.ts";
import { GC, untaggedRetention } from "../lib/config/server/gc.ts";
import { LISTENER, PROCESS } from "../lib/config/server/general.ts";
import { RUNTIME } from "../lib/config/server/runtime.ts";
import { BACKEND_TABLES } from "./options.ts";

const tables = serverTables(BACKEND_TABLES);
const options = tables.flatMap((table) => table.options);

/** All values in one record, as no part of the server gets them. */
function load(args: string[], env: Record<string, string>) {
  const { settings, warnings } = loadServerSettings(args, env, BACKEND_TABLES);
  return { config: settings.of(...tables) as Record<string, unknown>, warnings };
}

function refuses(
  input: { args?: string[]; env?: Record<string, string> },
  code: ErrorCode,
  message: RegExp | string,
) {
  assert.throws(() => load(input.args ?? [], input.env ?? {}), (error) => {
    assert(error instanceof SvcError, String(error));
    assert.equal(error.code, code, error.message);
    if (typeof message === "string") assert.equal(error.message, message);
    else assert.match(error.message, message);
    return true;
  });
}

Deno.test("server options: every variable of the specification has its flag and its default", async () => {
  const rows = await Deno.readTextFile(
    new URL("../test/golden/server_options.txt", import.meta.url),
  );
  const wanted = rows.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  assert.ok(wanted.length > 100);
  for (const line of wanted) {
    const [variable, flag, value] = line.split(" ");
    const found = options.find((o) => o.env?.includes(variable));
    assert.ok(found, `${variable} is not in a table`);
    const shown = found.flag === undefined ? "-" : `${found.negatable ? "[no-]" : ""}${found.flag}`;
    assert.equal(shown, flag, variable);
    assert.equal(
      found.default === undefined ? "-" : JSON.stringify(found.default),
      value,
      variable,
    );
  }
});

Deno.test("server options: keys, flags and variables are unique, variables are ours", () => {
  for (
    const names of [
      options.map((o) => o.key),
      options.flatMap((o) => o.flag ?? []),
      options.flatMap((o) => o.env ?? []),
    ]
  ) assert.equal(new Set(names).size, names.length);
  for (const { env = [], key } of options) {
    assert(
      env.every((name) =>
        /^(SVC_[A-Z0-9_]+|CNI_PATH|CONTAINERD_ADDRESS|DOCKER_(HOST|TLS_VERIFY|CERT_PATH))$/.test(
          name,
        )
      ),
      key,
    );
    assert(env.length > 0, key);
  }
});

Deno.test("server options: nothing set gives the defaults, and they pass their own checks", () => {
  const { config, warnings } = load([], {});
  assert.deepEqual(warnings, []);
  assert.equal(config.addr, ":5000");
  assert.equal(config.deployBackend, "dockerhost");
  assert.equal(config.cniBinDir, "/opt/cni/bin");
  assert.deepEqual(config.allowBindSources, []);
  assert.equal(config.storage, undefined);
  for (const { default: value, env, kind } of options) {
    if (value === undefined || kind === "list") continue;
    const text = kind === "duration" ? `${value}ms` : String(value);
    load([], { [env![0]]: text });
  }
});

Deno.test("server options: flag before variable before default", () => {
  const env = { SVC_ADDR: ":1", SVC_DATA: "/srv/a", CNI_PATH: "/cni" };
  const { config } = load(["--addr=127.0.0.1:2"], env);
  assert.equal(config.addr, "127.0.0.1:2");
  assert.equal(config.dataDir, "/srv/a");
  assert.equal(config.cniBinDir, "/cni");
  assert.equal(load(["--no-builder-auto"], {}).config.builderAuto, false);
});

Deno.test("server options: an option whose subsystem is absent is refused by name", () => {
  for (const absent of options.filter((option) => option.absent)) {
    const variable = absent.env![0];
    const text = {
      string: "value",
      bool: absent.default === true ? "off" : "on",
      int: "7",
      duration: "1m7s",
      bytes: "77k",
      list: "a=b,c=d",
    }[absent.kind];
    const choice: Record<string, string> = {
      SVC_BARE_STATS_SOURCE: "cgroup",
      SVC_K8S_NET_DRIVER: "cilium",
    };
    refuses(
      { env: { SVC_GC_INTERVAL: "1h", [variable]: choice[variable] ?? text } },
      "not_in_build",
      `Cannot use ${variable}: ${absent.absent} is not in this build yet`,
    );
  }
  refuses({ args: ["--otel"] }, "not_in_build", /^Cannot use --otel: observability/);
});

Deno.test("server options: off and its default are accepted where the subsystem is absent", () => {
  load(["--no-obs"], {
    SVC_REGISTRY_SOURCE: "off",
    SVC_REGISTRY_MIRROR_CACHE: "on",
    SVC_AUTH_TOKEN: "",
    SVC_TUNNEL_BACKEND: "ngrok",
  });
});

Deno.test("server options: the backend's name", () => {
  assert.equal(
    load([], { SVC_DEPLOY_BACKEND: "bare" }).config.deployBackend,
    "bare",
  );
  refuses({ args: ["--deploy-backend", "bare"] }, "usage", /unknown flag/);
});

Deno.test("server options: errors about URLs leave their passwords out", () => {
  const url = "ws://svc:se/cr@et@127.0.0.1:99999";
  refuses(
    { env: { SVC_BUILDER_URL: url } },
    "config_invalid",
    /"ws:\/\/…@127.0.0.1:99999" is not a URL/,
  );
});

Deno.test("server options: malformed values are startup errors", () => {
  const bad: Record<string, string[]> = {
    SVC_ADDR: ["5000", "host", ":99999", "a b:1", "http://x:1", "::1:5000"],
    SVC_LOG_LEVEL: ["loud", "INFO"],
    SVC_HOST_PATH_MAP: ["/a", "/a=b", "a=/b", "/a=/b=/c"],
    SVC_HOST_NETWORK: ["yes", "2"],
    SVC_BUILDER_URL: ["http://b", "b:1"],
    SVC_ADVERTISE_REGISTRY: ["a/b", "ftp://x", "x:y"],
    SVC_REGISTRY_SOURCE: ["on"],
    SVC_REGISTRY_MIRROR: [",", "ftp://x", "a,b", "x=a,x=b", "UP=a", "x=", "=a", "a/b", "x==a"],
    SVC_GC_INTERVAL: ["0s", "-1h", "often"],
    SVC_GC_UNTAGGED: ["sometimes", "0s", "-1h"],
    SVC_ALLOW_BIND_SOURCES: ["relative"],
    SVC_CNI_SUBNET_BASE: ["10", "10.300", "10.4.0"],
    SVC_MAX_BUILD_CONTEXT_BYTES: ["0", "many"],
    SVC_BARE_SNAPSHOTTER: ["zfs"],
    SVC_AUTH_KEYSTORE: ["database"],
    SVC_AUTH_TOKEN: ["two words", "t\u00e4st"],
    SVC_JWT_JWKS_URL: ["keys.json", "file:///keys.json"],
    SVC_ROOTLESS: ["perhaps"],
    SVC_INGRESS_LISTEN: ["8080", "http://localhost:80", ":70000"],
    SVC_INGRESS_ENFORCE_DOMAIN: ["perhaps"],
    SVC_TUNNEL_BACKEND: ["shh"],
    SVC_TUNNEL_SSH_ADDR: ["ssh://relay", "a b", ":22", "relay:0", "-oProxyCommand=x", "relay:x"],
    SVC_TUNNEL_SSH_BIND: ["relay", "a b:1", "1:2:3", "99999"],
    SVC_TUNNEL_SSH_URL_TEMPLATE: ["https://{hots}", "{host}:{port}x y", "no url", "{protocol}"],
    SVC_TUNNEL_SSH_HOSTKEY: ["ssh-ed25519", "SHA256:abc", "key"],
  };
  for (const [variable, values] of Object.entries(bad)) {
    for (const text of values) {
      refuses({ env: { [variable]: text } }, "config_invalid", new RegExp(variable));
    }
  }
  refuses(
    { env: { SVC_REGISTRY_SOURCE: "host-native", SVC_REGISTRY_MIRROR: "reg.example" } },
    "config_invalid",
    /exclude each other/,
  );
  refuses({ env: { SVC_GC_LEASE: "kube" } }, "config_invalid", /SVC_GC_INTERVAL is not set/);
});

Deno.test("server options: half of what HTTPS needs is refused", () => {
  refuses({ args: ["--tls-cert", "c"] }, "config_invalid", /--tls-cert: --tls-key is not set/);
  refuses({ env: { SVC_TLS_KEY: "k" } }, "config_invalid", /--tls-key: --tls-cert is not set/);
  refuses({ args: ["--tls-client-ca", "a"] }, "config_invalid", /--tls-client-ca: --tls-cert/);
  load(["--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "a"], {});
});

Deno.test("server options: collections have an interval, and a retention of untagged manifests", () => {
  const { config } = load([], { SVC_GC_INTERVAL: "1h30m", SVC_GC_UNTAGGED: "72h" });
  assert.equal(config.gcInterval, 5_400_000);
  assert.deepEqual(["keep", "drop", config.gcUntagged as string].map(untaggedRetention), [
    "keep",
    "drop",
    72 * 3_600_000,
  ]);
  assert.equal(load([], {}).config.gcInterval, undefined);
});

Deno.test("server options: an unknown flag and an unknown variable name the nearest", () => {
  refuses({ args: ["--data-dri", "x"] }, "usage", /did you mean --data-dir\?/);
  const { warnings } = load([], { SVC_LOGLEVEL: "debug", SVC_TOKEN: "t", HOME: "/" });
  assert.deepEqual(warnings, [
    "SVC_LOGLEVEL is not a variable of svc; did you mean SVC_LOG_LEVEL?",
  ]);
});

Deno.test("server options: an empty variable of authentication is told", () => {
  const { warnings } = load([], { SVC_AUTH_TOKEN: "", SVC_TLS_KEY: "", SVC_ADDR: "" });
  assert.deepEqual(warnings, [
    "SVC_TLS_KEY is empty and counts as not set",
    "SVC_AUTH_TOKEN is empty and counts as not set",
  ]);
});

Deno.test("server options: bind sources take colons and commas", () => {
  const { config } = load([], { SVC_ALLOW_BIND_SOURCES: "/a:/b,/c" });
  assert.deepEqual(config.allowBindSources, ["/a", "/b", "/c"]);
});

Deno.test("server options: privileges are all, none or kinds by name", () => {
  const kinds = (text: string) =>
    load([], { SVC_ALLOW_PRIVILEGED: text }).config.allowPrivileged as string[];
  assert.deepEqual(load([], {}).config.allowPrivileged, []);
  assert.deepEqual(["0", "false"].map(kinds), [[], []]);
  assert.deepEqual(kinds("capAdd, devices"), ["capAdd", "devices"]);
  for (const all of ["1", "true"]) assert.ok(kinds(all).includes("privileged"));
  refuses(
    { env: { SVC_ALLOW_PRIVILEGED: "capadd" } },
    "config_invalid",
    /SVC_ALLOW_PRIVILEGED: "capadd" is not one of .*did you mean capAdd/,
  );
});

Deno.test("server options: build concurrency falls back to the number of CPUs", () => {
  assert.deepEqual(
    ["3", " 3 ", undefined, "", "0", "-1", "two", "1.5"].map((text) => buildConcurrency(text, 8)),
    [3, 3, 8, 8, 8, 8, 8, 8],
  );
});

Deno.test("SVC_LAZY_9P: a way, and the size of the kernel's messages", () => {
  assert.deepEqual(lazyReading("auto"), { ways: ["kernel", "fuse"] });
  assert.deepEqual(lazyReading("kernel, msize=64Ki"), { ways: ["kernel", "fuse"], msize: 65536 });
  assert.deepEqual(lazyReading("msize=4096 fuse"), { ways: ["fuse"], msize: 4096 });
  assert.deepEqual(lazyReading("process"), { ways: [] });
  for (const wrong of ["kernal", "msize=1", "msize=2Mi", "msize=x"]) {
    assert.throws(() => load([], { SVC_LAZY_9P: wrong }), (error: Error) => {
      assert.match(error.message, /SVC_LAZY_9P|size/);
      return true;
    }, wrong);
  }
});

Deno.test("server options: what excludes each other in tunnels", () => {
  const both = {
    SVC_TUNNEL_SSH_URL_FROM_SESSION: "on",
    SVC_TUNNEL_SSH_URL_TEMPLATE: "http://{host}",
  };
  refuses({ env: both }, "config_invalid", /exclude each other/);
  for (const bind of ["8080", ":0", "*:80", "localhost:0", "[::1]:8080", "app.example:443"]) {
    const env = { SVC_TUNNEL_SSH_ADDR: "relay:2222", SVC_TUNNEL_SSH_BIND: bind };
    assert.equal(load([], env).config.tunnelSshBind, bind);
  }
});

Deno.test("server options: an option of two names", () => {
  for (
    const [key, name, other, one, two] of [
      ["runtime", "SVC_RUNTIME", "SVC_BARE_RUNTIME", "crun", "youki"],
      ["snapshotter", "SVC_SNAPSHOTTER", "SVC_BARE_SNAPSHOTTER", "native", "overlay"],
      ["insecureRegistries", "SVC_INSECURE_REGISTRIES", "SVC_BARE_INSECURE_REGISTRIES", "a:1", "b"],
    ]
  ) {
    const wanted = key === "insecureRegistries" ? [one] : one;
    for (const env of [{ [name]: one }, { [other]: one }, { [name]: one, [other]: one }]) {
      assert.deepEqual(load([], env).config[key], wanted);
    }
    assert.deepEqual(load([], { [name]: "", [other]: one }).config[key], wanted);
    refuses(
      { env: { [name]: one, [other]: two } },
      "config_invalid",
      `Cannot use ${name}: ${other} is another name of it and has another value`,
    );
  }
  // These say the same, though in other words.
  load([], { SVC_SNAPSHOTTER: "overlay", SVC_BARE_SNAPSHOTTER: "overlayfs" });
  load([], { SVC_INSECURE_REGISTRIES: "a, b", SVC_BARE_INSECURE_REGISTRIES: "a,b" });
  // The standard names are fallbacks: they may say something else.
  assert.equal(load([], { SVC_CNI_BIN_DIR: "/a", CNI_PATH: "/b" }).config.cniBinDir, "/a");
});

Deno.test("server options: a subsystem gets the values of its own tables, and no others", () => {
  const { settings } = loadServerSettings(["--addr", ":1"], {}, BACKEND_TABLES);
  assert.deepEqual(settings.of(LISTENER), { addr: ":1" });
  assert.deepEqual(Object.keys(settings.of(RUNTIME, LISTENER)).sort(), [
    "addr",
    "runtime",
    "snapshotter",
    "snapshotterTrace",
  ]);
  assert.deepEqual(Object.keys(settings.of(GC)), GC.options.map(({ key }) => key));
  const without = loadServerSettings([], {}).settings;
  assert.throws(() => without.of(BACKEND_TABLES[0]), /no values were read for/);
  assert.equal(without.of(PROCESS).rootless, false);
});

Deno.test("server options: what an option says of a value that is set", () => {
  assert.deepEqual(load([], { SVC_TUNNEL_SSH_INSECURE: "1" }).warnings, [
    "SVC_TUNNEL_SSH_INSECURE is set: tunnels trust whoever answers as the SSH server",
  ]);
  assert.deepEqual(load([], { SVC_TUNNEL_SSH_INSECURE: "0" }).warnings, []);
});
