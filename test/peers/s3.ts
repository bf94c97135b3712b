/**
 * An S3 server of one's own: Ceph's RADOS gateway with one monitor and one OSD in memory, as Debian
 * packages them. Multipart, part copies, conditional writes and signatures are the real ones.
 */
import { join } from "node:path";
import { freePort } from "../fixtures/free_port.ts";

export const S3_COMMANDS = [
  "ceph",
  "ceph-mon",
  "ceph-osd",
  "radosgw",
  "radosgw-admin",
  "monmaptool",
];

/** Why it cannot be started here, or undefined. */
export function missingS3(): string | undefined {
  if (Deno.build.os !== "linux") return "Linux";
  const folders = [...(Deno.env.get("PATH") ?? "").split(":"), "/usr/sbin"];
  const there = (name: string) =>
    folders.some((folder) => {
      try {
        return Deno.statSync(join(folder, name)).isFile;
      } catch {
        return false; // missing, or not to be seen
      }
    });
  const lacking = S3_COMMANDS.filter((name) => !there(name));
  return lacking.length > 0 ? `the commands ${lacking.join(", ")}` : undefined;
}

export interface S3Server extends AsyncDisposable {
  /** "http://127.0.0.1:PORT". */
  endpoint: string;
  accessKey: string;
  secretKey: string;
  bucket: string;
  /** A value of SVC_STORAGE in a folder that nobody else uses. */
  location: () => string;
  /** Ends the gateway without notice; `start` brings it back on the same data. */
  kill: () => Promise<void>;
  start: () => Promise<void>;
}

const ACCESS_KEY = "SVCTESTKEY";
const SECRET_KEY = "svc/test+secret";
const BUCKET = "svc-test";

function configuration(dir: string, port: number, monitor: number, fsid: string): string {
  return `[global]
fsid = ${fsid}
mon host = v2:127.0.0.1:${monitor}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
keyring = ${dir}/keyring
auth_allow_insecure_global_id_reclaim = false
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
ms_bind_msgr1 = false
run_dir = ${dir}
admin_socket =
log_file = ${dir}/$name.log
setuser =
setgroup =
[mon]
mon_data = ${dir}/mon
mon_initial_members = a
mon_data_avail_crit = 1
mon_data_avail_warn = 2
[osd]
osd_data = ${dir}/osd
osd_objectstore = memstore
memstore_device_bytes = 2147483648
osd_class_load_list = *
osd_class_default_list = *
osd_heartbeat_grace = 60
[client]
rgw_frontends = beast endpoint=127.0.0.1:${port}
rgw_data = ${dir}/rgw
rgw_dns_name =
rgw_run_sync_thread = false
rgw_enable_usage_log = false
rgw_rados_pool_pg_num_min = 1
`;
}

async function run(command: string, args: string[]): Promise<void> {
  const output = await new Deno.Command(command, {
    args,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
    signal: AbortSignal.timeout(300_000),
  }).output();
  if (output.success) return;
  const words = new TextDecoder().decode(output.stderr).trim().split("\n").slice(-5).join("\n");
  throw new Error(`Cannot run ${command} ${args.join(" ")}: ${words}`);
}

function daemon(command: string, args: string[]): Deno.ChildProcess {
  return new Deno.Command(command, { args, stdin: "null", stdout: "null", stderr: "null" }).spawn();
}

async function end(child: Deno.ChildProcess | undefined): Promise<void> {
  if (!child) return;
  try {
    child.kill("SIGKILL");
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // it has ended
  }
  await child.status;
}

async function answers(endpoint: string, child: Deno.ChildProcess): Promise<void> {
  let ended = false;
  child.status.then(() => ended = true);
  for (let n = 0; n < 1800 && !ended; n++) {
    try {
      await (await fetch(endpoint)).body?.cancel();
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100)); // not yet
    }
  }
  throw new Error("Cannot start the S3 server: radosgw does not answer");
}

async function createBucket(endpoint: string): Promise<void> {
  const { CreateBucketCommand, S3Client } = await import("@aws-sdk/client-s3");
  const client = new S3Client({
    region: "us-east-1",
    endpoint,
    forcePathStyle: true,
    credentials: { accessKeyId: ACCESS_KEY, secretAccessKey: SECRET_KEY },
  });
  await client.send(new CreateBucketCommand({ Bucket: BUCKET }));
  client.destroy();
}

/** About 10 s on two cores. */
export async function startS3(): Promise<S3Server> {
  const dir = await Deno.makeTempDir({ prefix: "svc-s3-" });
  const port = freePort();
  const monitor = freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  const conf = join(dir, "ceph.conf");
  const keyring = join(dir, "keyring");
  const daemons: Record<"mon" | "osd" | "rgw", Deno.ChildProcess | undefined> = {
    mon: undefined,
    osd: undefined,
    rgw: undefined,
  };
  const stop = async () => {
    for (const child of [daemons.rgw, daemons.osd, daemons.mon]) await end(child);
    await Deno.remove(dir, { recursive: true });
  };
  const start = async () => {
    daemons.rgw = daemon("radosgw", ["-c", conf, "-n", "client.rgw", "-f"]);
    await answers(endpoint, daemons.rgw);
  };
  try {
    const fsid = crypto.randomUUID();
    for (const name of ["mon", "osd", "rgw"]) await Deno.mkdir(join(dir, name));
    await Deno.writeTextFile(conf, configuration(dir, port, monitor, fsid));
    const key = ["--gen-key", "-n"];
    const every = ["--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *"];
    await run("ceph-authtool", ["-C", keyring, ...key, "mon.", "--cap", "mon", "allow *"]);
    for (const entity of ["client.admin", "client.rgw", "osd.0"]) {
      await run("ceph-authtool", [keyring, ...key, entity, ...every]);
    }
    const map = join(dir, "monmap");
    const address = `[v2:127.0.0.1:${monitor}]`;
    await run("monmaptool", ["--create", "--fsid", fsid, "--addv", "a", address, map]);
    const mon = ["-c", conf, "-i", "a"];
    await run("ceph-mon", [...mon, "--mkfs", "--monmap", map, "--keyring", keyring]);
    daemons.mon = daemon("ceph-mon", [...mon, "-f"]);
    const uuid = crypto.randomUUID();
    const osd = ["-c", conf, "-i", "0"];
    await run("ceph-osd", [...osd, "--mkfs", "--osd-uuid", uuid, "--no-mon-config"]);
    const made = (await Deno.readTextFile(join(dir, "osd/fsid"))).trim();
    await run("ceph", ["-c", conf, "--connect-timeout", "120", "osd", "new", made, "0"]);
    daemons.osd = daemon("ceph-osd", [...osd, "-f"]);
    await start();
    await run("radosgw-admin", [
      ...["-c", conf, "-n", "client.rgw", "user", "create", "--uid=t", "--display-name=t"],
      ...[`--access-key=${ACCESS_KEY}`, `--secret-key=${SECRET_KEY}`],
    ]);
    await createBucket(endpoint);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    endpoint,
    accessKey: ACCESS_KEY,
    secretKey: SECRET_KEY,
    bucket: BUCKET,
    location: () =>
      `s3://${BUCKET}/${crypto.randomUUID()}?${new URLSearchParams({
        endpoint,
        path_style: "true",
        access_key: ACCESS_KEY,
        secret_key: SECRET_KEY,
      })}`,
    kill: () => end(daemons.rgw),
    start,
    [Symbol.asyncDispose]: stop,
  };
}
