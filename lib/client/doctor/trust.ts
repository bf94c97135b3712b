/**
 * Whether the engines of this host will pull from a registry: for a registry without TLS, or with a CA of its
 * own, docker, podman, containerd and k3s each need an entry in a file.
 */
import { join } from "node:path";
import { SvcError } from "../../base/errors.ts";
import {
  type Fix,
  isLoopback,
  known,
  type Registry,
  text,
  there,
  type TrustInput,
  type TrustReport,
} from "./engine.ts";
import { containerd } from "./trust_containerd.ts";

const certificate = (folder: string, { host, ca }: Registry): Fix => ({
  path: join(folder, host, "ca.crt"),
  content: ca!,
});

async function caReport(engine: string, folder: string, registry: Registry): Promise<TrustReport> {
  const fix = certificate(folder, registry);
  const ok = (await text(fix.path))?.trim() === registry.ca!.trim();
  return {
    engine,
    ok,
    detail: ok ? `${fix.path} has the CA` : `${fix.path} lacks the CA of ${registry.host}`,
    fixes: ok ? [] : [fix],
  };
}

async function docker({ registry, root }: TrustInput): Promise<TrustReport | undefined> {
  const folder = join(root, "etc/docker");
  const present = await there(folder) || await there(join(root, "usr/bin/dockerd")) ||
    await there(join(root, "usr/sbin/dockerd"));
  if (!present) return undefined;
  const engine = "docker";
  if (!registry.plain) {
    return registry.ca ? await caReport(engine, join(folder, "certs.d"), registry) : known(engine);
  }
  if (isLoopback(registry.host)) {
    return { engine, ok: true, detail: "takes loopback registries without TLS", fixes: [] };
  }
  const path = join(folder, "daemon.json");
  let config: { "insecure-registries"?: string[] };
  try {
    config = JSON.parse(await text(path) ?? "{}");
  } catch {
    throw new SvcError("config_invalid", `Cannot check docker: ${path} is not JSON`, {
      help: "correct the file",
    });
  }
  const list = config["insecure-registries"] ?? [];
  const ok = list.includes(registry.host);
  const content = JSON.stringify(
    { ...config, "insecure-registries": [...list, registry.host] },
    null,
    2,
  );
  return {
    engine,
    ok,
    detail: ok
      ? `${path} names ${registry.host}`
      : `${path} does not name ${registry.host} in insecure-registries`,
    fixes: ok ? [] : [{ path, content: content + "\n", then: "systemctl reload docker" }],
  };
}

/** True where a registries.conf names the host as insecure. */
async function podmanInsecure(conf: string, host: string): Promise<boolean> {
  const content = await text(conf);
  if (content === undefined) return false;
  const { parse } = await import("smol-toml");
  try {
    const { registry = [] } = parse(content) as { registry?: Record<string, unknown>[] };
    return registry.some((row) => (row.location ?? row.prefix) === host && row.insecure === true);
  } catch {
    return false; // podman says so itself
  }
}

async function podman({ registry, root }: TrustInput): Promise<TrustReport | undefined> {
  const folder = join(root, "etc/containers");
  if (!await there(folder) && !await there(join(root, "usr/bin/podman"))) return undefined;
  const engine = "podman";
  if (!registry.plain) {
    return registry.ca ? await caReport(engine, join(folder, "certs.d"), registry) : known(engine);
  }
  const drop = join(folder, "registries.conf.d");
  const files = [join(folder, "registries.conf")];
  try {
    for await (const { name } of Deno.readDir(drop)) files.push(join(drop, name));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  for (const file of files) {
    if (await podmanInsecure(file, registry.host)) {
      return { engine, ok: true, detail: `${file} names ${registry.host}`, fixes: [] };
    }
  }
  const path = join(drop, `svc-${registry.host.replaceAll(/[^\w.-]/g, "-")}.conf`);
  const content = `[[registry]]\nlocation = ${JSON.stringify(registry.host)}\ninsecure = true\n`;
  return {
    engine,
    ok: false,
    detail: `no file of ${folder} names ${registry.host} as insecure`,
    fixes: [{ path, content }],
  };
}

async function k3s({ registry, root }: TrustInput): Promise<TrustReport | undefined> {
  const folder = join(root, "etc/rancher/k3s");
  if (!await there(folder) && !await there(join(root, "usr/local/bin/k3s"))) return undefined;
  const engine = "k3s";
  if (!registry.plain && !registry.ca) return known(engine);
  const path = join(folder, "registries.yaml");
  const { isMap, parseDocument } = await import("../yaml.ts");
  const document = parseDocument(await text(path) ?? "");
  if (document.errors.length > 0 || (document.contents && !isMap(document.contents))) {
    throw new SvcError("config_invalid", `Cannot check k3s: ${path} is not a registries.yaml`, {
      help: "correct the file",
    });
  }
  const url = `${registry.plain ? "http" : "https"}://${registry.host}`;
  const ca = join(folder, "svc-ca.crt");
  const endpoints = document.getIn(["mirrors", registry.host, "endpoint"]) as
    | { toJSON(): unknown }
    | undefined;
  const named = JSON.stringify(endpoints?.toJSON() ?? []).includes(url);
  const trusted = !registry.ca ||
    document.getIn(["configs", registry.host, "tls", "ca_file"]) !== undefined;
  if (named && trusted) {
    return { engine, ok: true, detail: `${path} names ${registry.host}`, fixes: [] };
  }
  document.setIn(["mirrors", registry.host], document.createNode({ endpoint: [url] }));
  if (registry.ca) {
    document.setIn(["configs", registry.host], document.createNode({ tls: { ca_file: ca } }));
  }
  return {
    engine,
    ok: false,
    detail: `${path} does not name ${registry.host}`,
    fixes: [
      ...(registry.ca ? [{ path: ca, content: registry.ca }] : []),
      { path, content: document.toString(), then: "systemctl restart k3s" },
    ],
  };
}

/** A report of each engine that this host has. */
export async function checkTrust(input: TrustInput): Promise<TrustReport[]> {
  const reports = [
    await docker(input),
    await podman(input),
    await containerd(input),
    await k3s(input),
  ];
  return reports.filter((report) => report !== undefined);
}
