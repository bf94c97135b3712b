/** containerd's trust of a registry: hosts.toml in a certs.d folder, whose path the CRI plugin must be told. */
import { join } from "node:path";
import { SvcError } from "../../base/errors.ts";
import {
  type Fix,
  known,
  type Registry,
  text,
  there,
  type TrustInput,
  type TrustReport,
} from "./engine.ts";

/** hosts.toml, which containerd reads for each pull. */
function hostsToml({ host, plain, ca }: Registry, caPath: string): string {
  const url = `${plain ? "http" : "https"}://${host}`;
  return `server = ${JSON.stringify(url)}\n\n[host.${
    JSON.stringify(url)
  }]\n  capabilities = ["pull", "resolve"]\n` +
    (ca ? `  ca = ${JSON.stringify(caPath)}\n` : "");
}

interface Config {
  version?: number;
  disabled_plugins?: string[];
  plugins?: Record<string, { registry?: { config_path?: string } } | undefined>;
}

/** The names of the plugin that pulls for Kubernetes, by the version of config.toml. */
const CRI = (version: number) =>
  version >= 3
    ? "io.containerd.cri.v1.images"
    : version === 2
    ? "io.containerd.grpc.v1.cri"
    : "cri";

interface CriState {
  /** The folder that the plugin reads; absent: none. */
  folder?: string;
  /** The plugin is switched off. */
  disabled: boolean;
  version: number;
  /** The file has a table for the plugin already: a second one must not be appended. */
  hasTable: boolean;
}

async function criState(config: string, content: string | undefined): Promise<CriState> {
  const { parse } = await import("smol-toml");
  let parsed: Config;
  try {
    parsed = parse(content ?? "") as Config;
  } catch {
    throw new SvcError("config_invalid", `Cannot check containerd: ${config} is not TOML`, {
      help: "correct the file",
    });
  }
  const version = parsed.version ?? (content?.trim() ? 1 : 2);
  const registry = parsed.plugins?.[CRI(version)]?.registry;
  const disabled = (parsed.disabled_plugins ?? []).some((name) =>
    name === "cri" || name === CRI(version)
  );
  const folder = registry?.config_path?.split(":")[0];
  return { ...(folder && { folder }), disabled, version, hasTable: registry !== undefined };
}

function criFix(
  config: string,
  content: string | undefined,
  state: CriState,
  folder: string,
): Fix[] {
  // Two tables of one name are not valid TOML, and svc does not edit the existing one.
  if (state.hasTable) return [];
  const name = CRI(state.version);
  const plugin = /^\w+$/.test(name) ? name : JSON.stringify(name);
  const before = content?.trim() ? `${content.trimEnd()}\n\n` : "version = 2\n\n";
  return [{
    path: config,
    content: `${before}[plugins.${plugin}.registry]\n  config_path = ${JSON.stringify(folder)}\n`,
    then: "systemctl restart containerd",
  }];
}

export async function containerd(
  { registry, root }: TrustInput,
): Promise<TrustReport | undefined> {
  const etc = join(root, "etc/containerd");
  const present = await there(etc) || await there(join(root, "usr/bin/containerd")) ||
    await there(join(root, "usr/local/bin/containerd"));
  if (!present) return undefined;
  const engine = "containerd";
  if (!registry.plain && !registry.ca) return known(engine);
  const config = join(etc, "config.toml");
  const content = await text(config);
  const state = await criState(config, content);
  // svc, nerdctl and ctr read this folder too: it is used where the plugin has no other.
  const usual = "/etc/containerd/certs.d";
  const host = join(root, state.folder ?? usual, registry.host);
  const path = join(host, "hosts.toml");
  const ca = join(host, "ca.crt");
  const now = await text(path);
  const named = now !== undefined &&
    now.includes(`${registry.plain ? "http" : "https"}://${registry.host}`) &&
    (!registry.ca || (await text(ca))?.trim() === registry.ca.trim());
  const configured = state.disabled || state.folder !== undefined;
  const fixes = [
    ...(named ? [] : [
      ...(registry.ca ? [{ path: ca, content: registry.ca }] : []),
      { path, content: hostsToml(registry, ca) },
    ]),
    ...(configured ? [] : criFix(config, content, state, usual)),
  ];
  const detail = !named
    ? `${path} does not name ${registry.host}`
    : configured
    ? `${path} names ${registry.host}`
    : `${config} sets no registry config_path, so its CRI plugin does not read ${path}`;
  return { engine, ok: named && configured, detail, fixes };
}
