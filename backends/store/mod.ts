/** The storage backends, and what a value of SVC_STORAGE (`--storage`) selects. */
import { join } from "node:path";
import { SvcError } from "../../lib/base/errors.ts";
import { suggestion } from "../../lib/base/nearest.ts";
import type { ObjectStore } from "../../lib/store/object_store.ts";
import { parseS3Location } from "./s3/location.ts";

export interface StoreBackend {
  help: string;
  /** Schemes of SVC_STORAGE that select it. */
  schemes: readonly string[];
  /** Absent where this build does not have it; `missing` then says why. */
  load?: () => Promise<(location: string) => Promise<ObjectStore>>;
  /** Throws `config_invalid` for what can be told without opening it. */
  check?: (location: string) => unknown;
  missing?: string;
}

const CLOUD = "it needs a build of svc made with the build tag cloudblob";

export const STORES = {
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
    load: async () => (await import("./s3.ts")).openS3Store,
  },
  gcs: { help: "gs://BUCKET: Google-style object storage", schemes: ["gs"], missing: CLOUD },
  azure: {
    help: "azblob://CONTAINER: Azure-style blob storage",
    schemes: ["azblob"],
    missing: CLOUD,
  },
} as const satisfies Record<string, StoreBackend>;

export type StoreName = keyof typeof STORES;

export interface StorageLocation {
  backend: StoreName;
  /** A path for `fs`; the whole value for the others: it may carry credentials. */
  location: string;
  /** The same for people and logs. */
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
 * backend that this build does not have and `config_invalid` for what none of them understands.
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
  if (!backend.load) {
    throw new SvcError("not_in_build", `Cannot use storage ${shown}: ${backend.missing}`, {
      help: "use a path, file://PATH, mem:// or s3://BUCKET",
    });
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

/** Opens what `parseStorage` found. The caller disposes of it. */
export async function openStorage(
  { backend, location }: Pick<StorageLocation, "backend" | "location">,
): Promise<ObjectStore> {
  const entry: StoreBackend = STORES[backend];
  if (!entry.load) {
    throw new SvcError("not_in_build", `Cannot use storage ${backend}: ${entry.missing}`);
  }
  return await (await entry.load())(location);
}
