/** Kubeconfig files, as kubectl reads them: the API server and the user's credential. */
import { dirname, isAbsolute, join, resolve } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { run } from "../../base/process.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

interface Named<T> {
  name: string;
  value: T;
  /** Relative paths in the file start here. */
  folder: string;
}

interface Cluster {
  server?: string;
  "certificate-authority"?: string;
  "certificate-authority-data"?: string;
  "insecure-skip-tls-verify"?: boolean;
  "tls-server-name"?: string;
}

interface User {
  token?: string;
  tokenFile?: string;
  "client-certificate"?: string;
  "client-certificate-data"?: string;
  "client-key"?: string;
  "client-key-data"?: string;
  username?: string;
  password?: string;
  exec?: {
    apiVersion?: string;
    command: string;
    args?: string[] | null;
    env?: { name: string; value: string }[] | null;
  };
  "auth-provider"?: { name?: string };
}

interface KubeContext {
  cluster?: string;
  user?: string;
  namespace?: string;
}

interface Merged {
  current?: string;
  contexts: Named<KubeContext>[];
  clusters: Named<Cluster>[];
  users: Named<User>[];
}

/** A cluster's API server with a credential for it. */
export interface KubeAccess {
  server: string;
  namespace: string;
  ca?: string;
  insecure: boolean;
  serverName?: string;
  cert?: string;
  key?: string;
  /** Value of the `Authorization` header. */
  authorization?: string;
}

const bad = (what: string, help?: string) =>
  new SvcError("config_invalid", `Cannot use the kubeconfig: ${what}`, {
    help: help ?? "check KUBECONFIG and `kubectl config view`",
  });

async function readAll(env: Environment): Promise<Merged> {
  const { parse } = await import("../yaml.ts");
  const separator = Deno.build.os === "windows" ? ";" : ":";
  const home = env.HOME ?? env.USERPROFILE;
  const paths = env.KUBECONFIG
    ? env.KUBECONFIG.split(separator).filter((path) => path !== "")
    : home
    ? [join(home, ".kube", "config")]
    : [];
  const merged: Merged = { contexts: [], clusters: [], users: [] };
  for (const path of paths) {
    const text = await Deno.readTextFile(path).catch((error) => {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw bad(`${path}: ${(error as Error).message}`);
    });
    if (text === undefined) continue;
    let document: Record<string, unknown> | null;
    try {
      document = parse(text, { logLevel: "error" });
    } catch (cause) {
      throw new SvcError("config_invalid", `Cannot use the kubeconfig: ${path} is not YAML`, {
        cause: new Error((cause as Error).name),
      });
    }
    const list = <T>(key: string, member: string): Named<T>[] =>
      ((document?.[key] ?? []) as Record<string, unknown>[]).map((item) => ({
        name: item.name as string,
        value: (item[member] ?? {}) as T,
        folder: dirname(resolve(path)),
      }));
    merged.current ??= (document?.["current-context"] as string | undefined) || undefined;
    merged.contexts.push(...list<KubeContext>("contexts", "context"));
    merged.clusters.push(...list<Cluster>("clusters", "cluster"));
    merged.users.push(...list<User>("users", "user"));
  }
  return merged;
}

/** Inline data goes before a file's path, as with kubectl. */
async function pem(data: string | undefined, path: string | undefined, folder: string) {
  if (data) return new TextDecoder().decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)));
  if (!path) return undefined;
  const file = isAbsolute(path) ? path : join(folder, path);
  return await Deno.readTextFile(file).catch((error) => {
    throw bad(`${file}: ${(error as Error).message}`);
  });
}

interface Proof {
  authorization?: string;
  cert?: string;
  key?: string;
}

async function execCredential(
  exec: NonNullable<User["exec"]>,
  signal?: AbortSignal,
): Promise<Proof> {
  const apiVersion = exec.apiVersion ?? "client.authentication.k8s.io/v1";
  const env = Object.fromEntries((exec.env ?? []).map(({ name, value }) => [name, value]));
  env.KUBERNETES_EXEC_INFO = JSON.stringify({
    apiVersion,
    kind: "ExecCredential",
    spec: { interactive: false },
  });
  const result = await run(exec.command, exec.args ?? [], { env, signal });
  if (result.code !== 0) {
    throw bad(
      `${exec.command} exited with ${result.code}`,
      "log in to the cluster, as for kubectl",
    );
  }
  try {
    const { status = {} } = JSON.parse(result.stdout) as { status?: Record<string, string> };
    return {
      ...(status.token && { authorization: `Bearer ${status.token}` }),
      ...(status.clientCertificateData && { cert: status.clientCertificateData }),
      ...(status.clientKeyData && { key: status.clientKeyData }),
    };
  } catch {
    throw bad(`${exec.command} gave no ExecCredential`);
  }
}

async function proofOf({ value: user, folder }: Named<User>, signal?: AbortSignal): Promise<Proof> {
  if (user["auth-provider"]) {
    throw bad(
      `auth-provider ${user["auth-provider"].name} is of old clients`,
      "use an exec plugin",
    );
  }
  const cert = await pem(user["client-certificate-data"], user["client-certificate"], folder);
  const key = await pem(user["client-key-data"], user["client-key"], folder);
  const token = user.tokenFile
    ? (await pem(undefined, user.tokenFile, folder))?.trim()
    : user.token;
  const basic = user.username === undefined
    ? undefined
    : `Basic ${btoa(`${user.username}:${user.password ?? ""}`)}`;
  const authorization = token ? `Bearer ${token}` : basic;
  const own = {
    ...(cert && { cert }),
    ...(key && { key }),
    ...(authorization && { authorization }),
  };
  return user.exec && !authorization ? { ...own, ...await execCredential(user.exec, signal) } : own;
}

const IN_CLUSTER = "/var/run/secrets/kubernetes.io/serviceaccount";

async function inCluster(env: Environment): Promise<KubeAccess | undefined> {
  const host = env.KUBERNETES_SERVICE_HOST;
  const token = await Deno.readTextFile(`${IN_CLUSTER}/token`).catch(() => undefined);
  if (!host || !token) return undefined;
  const read = (name: string) => Deno.readTextFile(`${IN_CLUSTER}/${name}`).catch(() => undefined);
  const ca = await read("ca.crt");
  return {
    server: `https://${host.includes(":") ? `[${host}]` : host}:${
      env.KUBERNETES_SERVICE_PORT ?? 443
    }`,
    namespace: (await read("namespace"))?.trim() || "default",
    ...(ca && { ca }),
    insecure: false,
    authorization: `Bearer ${token.trim()}`,
  };
}

/** Throws `config_invalid` where the kubeconfig lacks what is needed. `name` absent: its current context. */
export async function kubeAccess(
  name: string | undefined,
  env: Environment,
  signal?: AbortSignal,
): Promise<KubeAccess> {
  const merged = await readAll(env);
  const wanted = name ?? merged.current;
  if (wanted === undefined) {
    const inside = await inCluster(env);
    if (inside) return inside;
    throw bad("it selects no context", "name one in port-forward.kube-context");
  }
  const find = <T>(kind: string, list: Named<T>[], key: string | undefined): Named<T> => {
    const found = list.find((item) => item.name === key);
    if (found) return found;
    throw bad(
      `it has no ${kind} ${JSON.stringify(key)}`,
      "`kubectl config get-contexts` lists what it has",
    );
  };
  const context = find("context", merged.contexts, wanted).value;
  const { value: cluster, folder } = find("cluster", merged.clusters, context.cluster);
  if (!cluster.server) throw bad(`cluster ${context.cluster} has no server`);
  const proof = context.user ? await proofOf(find("user", merged.users, context.user), signal) : {};
  const ca = await pem(
    cluster["certificate-authority-data"],
    cluster["certificate-authority"],
    folder,
  );
  return {
    server: cluster.server.replace(/\/+$/, ""),
    namespace: context.namespace || "default",
    ...(ca && { ca }),
    insecure: cluster["insecure-skip-tls-verify"] ?? false,
    ...(cluster["tls-server-name"] && { serverName: cluster["tls-server-name"] }),
    ...proof,
  };
}
