/** The storage backends, and which of them a value of SVC_STORAGE (`--storage`) selects. */
import { join } from "node:path";
import { buildInfo } from "../../lib/base/build_info.ts";
import { SvcError } from "../../lib/base/errors.ts";
import { suggestion } from "../../lib/base/nearest.ts";
import { type OptionTable, optionTable, type Settings } from "../../lib/config/table.ts";
import type { ObjectStore } from "../../lib/store/object_store.ts";
import { parseAzureLocation } from "./azure/location.ts";
import { parseGcsLocation } from "./gcs/location.ts";
import { parseS3Location } from "./s3/location.ts";
import type { Bucket, BucketOptions } from "./shared/bucket.ts";
import type { Probe } from "./shared/doctor.ts";

type Environment = Readonly<Record<string, string | undefined>>;
type OpenBucket = (location: string, options: BucketOptions) => Bucket;

export interface StoreBackend {
  help: string;
  /** Schemes of SVC_STORAGE that select the backend. */
  schemes: readonly string[];
  /** Only builds of svc with this tag contain the backend. */
  tag?: string;
  load: () => Promise<(location: string, env: Environment) => Promise<ObjectStore>>;
  /** Throws `config_invalid` for errors that can be found without opening the store. */
  check?: (location: string) => unknown;
  /** Only for backends that keep everything in a bucket: `svc doctor` tests it. */
  bucket?: () => Promise<OpenBucket>;
}

function inBucket(bucket: () => Promise<OpenBucket>): Pick<StoreBackend, "load" | "bucket"> {
  return {
    bucket,
    load: async () => {
      const [open, { openBucket }] = await Promise.all([bucket(), import("./shared/store.ts")]);
      return (location, env) => openBucket(open(location, { env }));
    },
  };
}

const STORES = {
  fs: {
    help: "a path, or file://PATH: files of one folder, durable",
    schemes: ["file"],
    load: async () => (await import("./fs.ts")).openFsStore,
  },
  mem: {
    help: "mem://: this process's memory, lost on restart",
    schemes: ["mem"],
    load: async () => {
      const { openMemStore } = await import("./mem.ts");
      return () => Promise.resolve(openMemStore());
    },
  },
  s3: {
    help: "s3://BUCKET: S3-compatible object storage",
    schemes: ["s3"],
    check: parseS3Location,
    ...inBucket(async () => (await import("./s3.ts")).s3Bucket),
  },
  gcs: {
    help: "gs://BUCKET: Google-style object storage",
    schemes: ["gs"],
    tag: "cloudblob",
    check: parseGcsLocation,
    ...inBucket(async () => (await import("./gcs.ts")).gcsBucket),
  },
  azure: {
    help: "azblob://CONTAINER: Azure-style blob storage",
    schemes: ["azblob"],
    tag: "cloudblob",
    check: parseAzureLocation,
    ...inBucket(async () => (await import("./azure.ts")).azureBucket),
  },
} as const satisfies Record<string, StoreBackend>;

/** SPEC "Storage". */
const STORAGE = optionTable([
  {
    key: "storage",
    kind: "string",
    flag: "storage",
    env: ["SVC_STORAGE"],
    defaultText: "<data-dir>/registry",
    placeholder: "PATH|URL",
    section: "Storage",
    help: "Where the registry keeps its content: a path or file://PATH (durable), mem:// (lost " +
      "on restart), or s3://BUCKET[/PREFIX]?region=&endpoint=&path_style=&access_key=&secret_key=. " +
      "In a build made with the tag cloudblob also gs://BUCKET[/PREFIX]?endpoint= and " +
      "azblob://CONTAINER[/PREFIX]?account=&endpoint=&access_key=&secret_key= (the account and its " +
      "key). Credentials that are not given come from the clouds' standard chains: that of AWS; " +
      "Google's application default credentials (GOOGLE_APPLICATION_CREDENTIALS, gcloud, the " +
      "machine's); AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT with " +
      "AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, else Azure's default credential.",
  },
]);

export const STORE_TABLES: readonly OptionTable[] = [STORAGE];

export type StoreName = keyof typeof STORES;

export interface StorageLocation {
  backend: StoreName;
  /** A path for `fs`, else the whole value, which may carry credentials. */
  location: string;
  /** The location without credentials: for people and logs. */
  shown: string;
}

function filePath(value: string, text: string): string {
  try {
    const path = decodeURIComponent(text);
    if (path !== "" && !path.includes("\0")) return path;
  } catch {
    // falls through to the error below
  }
  throw new SvcError("config_invalid", `Cannot use storage ${value}: expected file:// and a path`);
}

/**
 * Reads a value of SVC_STORAGE; unset means `registry` in the data directory. Throws `not_in_build` for a
 * backend that this build does not contain, and `config_invalid` for a malformed value.
 */
export function parseStorage(value: string | undefined, dataDir: string): StorageLocation {
  const folder = (location: string) => ({ backend: "fs" as const, location, shown: location });
  if (!value) return folder(join(dataDir, "registry"));
  const match = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/(.*)$/s.exec(value);
  if (!match) return folder(value);
  const scheme = match[1].toLowerCase();
  // A query may carry credentials: it stays out of messages.
  const shown = value.split("?")[0];
  const table: [string, StoreBackend][] = Object.entries(STORES);
  const found = table.find(([, backend]) => backend.schemes.includes(scheme));
  if (!found) {
    const schemes = table.flatMap(([, backend]) => backend.schemes);
    throw new SvcError(
      "config_invalid",
      `Cannot use storage ${shown}: no backend for ${scheme}://${suggestion(scheme, schemes)}`,
      { help: "use a path, file://PATH, mem:// or s3://BUCKET" },
    );
  }
  const [name, backend] = found;
  if (backend.tag && !buildInfo().tags.includes(backend.tag)) {
    throw new SvcError(
      "not_in_build",
      `Cannot use storage ${shown}: it needs a build of svc made with the build tag ${backend.tag}`,
      { help: "use a path, file://PATH, mem:// or s3://BUCKET" },
    );
  }
  if (name === "mem" && match[2] !== "") {
    throw new SvcError(
      "config_invalid",
      `Cannot use storage ${shown}: mem:// takes nothing after it`,
    );
  }
  if (name === "fs") return folder(filePath(shown, match[2]));
  backend.check?.(value);
  return { backend: name as StoreName, location: value, shown };
}

/** Opens the result of `parseStorage`. Credential chains begin with `env`. The caller disposes of the store. */
export async function openStorage(
  { backend, location }: Pick<StorageLocation, "backend" | "location">,
  env: Environment = {},
): Promise<ObjectStore> {
  const entry: StoreBackend = STORES[backend];
  return await (await entry.load())(location, env);
}

/** The storage that SVC_STORAGE selects. Throws what `parseStorage` does. */
export function selectStorage(settings: Settings, dataDir: string): {
  shown: string;
  /** True where a setting names the storage, false for the default. */
  given: boolean;
  open: (env: Environment) => Promise<ObjectStore>;
  /** For a registry that keeps nothing of its own. */
  openEmpty: () => Promise<ObjectStore>;
} {
  const { storage } = settings.of(STORAGE);
  const location = parseStorage(storage, dataDir);
  return {
    shown: location.shown,
    given: Boolean(storage),
    open: (env) => openStorage(location, env),
    openEmpty: () => openStorage({ backend: "mem", location: "mem://" }),
  };
}

/** Tries every operation that svc needs of a bucket. Throws what `parseStorage` does. */
export async function* probeStorage(
  value: string,
  { env, signal }: { env?: Environment; signal?: AbortSignal } = {},
): AsyncGenerator<Probe> {
  const { backend, location, shown } = parseStorage(value, "");
  const { bucket }: StoreBackend = STORES[backend];
  if (!bucket) throw new SvcError("usage", `Cannot examine storage ${shown}: it is not a bucket`);
  const { probeBucket } = await import("./shared/doctor.ts");
  yield* probeBucket((await bucket())(location, { env }), { signal });
}
