/**
 * Azure-style blob storage: Microsoft's emulator Azurite, from npm at the first use, run by Deno. Its files
 * are in a folder that goes with it.
 */
import { freePort } from "../fixtures/free_port.ts";

/** The last one whose own dependencies are all to be had. */
const AZURITE = "npm:azurite@3.35.0/azurite-blob";
/** Fetching it takes a while. */
const READY_MS = 180_000;

const ACCOUNT = "svctest";
const CONTAINER = "svc-test";

export interface AzureServer extends AsyncDisposable {
  /** A value of SVC_STORAGE in a folder that nobody else uses. */
  location: () => string;
  /** For the environment: the same account. */
  connection: string;
  /** Ends the emulator without notice; `start` brings it back on the same data. */
  kill: () => Promise<void>;
  start: () => Promise<void>;
}

const RUN = ["run", "-A", "--quiet", "--no-config", "--no-lock", AZURITE];

/** True where it cannot be fetched, which is said; under `CI=true` that is for `startAzure` to fail with. */
export async function withoutAzure(): Promise<boolean> {
  if (Deno.env.get("CI") === "true") return false;
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: [...RUN, "--version"],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).output();
  if (!success) console.error(`skipped: needs ${AZURITE}`);
  return !success;
}

export async function startAzure(): Promise<AzureServer> {
  const dir = await Deno.makeTempDir({ prefix: "svc-azure-" });
  const port = freePort();
  const key = btoa(crypto.randomUUID() + crypto.randomUUID());
  const endpoint = `http://127.0.0.1:${port}/${ACCOUNT}`;
  let child: Deno.ChildProcess | undefined;

  const kill = async () => {
    try {
      child?.kill("SIGKILL");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // it has ended
    }
    await child?.status;
  };
  const start = async () => {
    child = new Deno.Command(Deno.execPath(), {
      args: [
        ...RUN,
        ...["--blobHost", "127.0.0.1", "--blobPort", String(port), "--location", dir],
        ...["--silent", "--disableTelemetry", "--skipApiVersionCheck"],
      ],
      env: { AZURITE_ACCOUNTS: `${ACCOUNT}:${key}` },
      stdin: "null",
      stdout: "null",
      stderr: "inherit",
    }).spawn();
    let ended = false;
    child.status.then(() => ended = true);
    for (const until = Date.now() + READY_MS; !ended && Date.now() < until;) {
      const answered = await fetch(endpoint).then(
        async (response) => {
          await response.body?.cancel();
          return true;
        },
        () => false,
      );
      if (answered) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error(`Cannot start ${AZURITE}: it ${ended ? "ended" : "does not answer"}`);
  };
  const stop = async () => {
    await kill();
    await Deno.remove(dir, { recursive: true });
  };
  try {
    await start();
    const { BlobServiceClient, StorageSharedKeyCredential } = await import("@azure/storage-blob");
    const credential = new StorageSharedKeyCredential(ACCOUNT, key);
    await new BlobServiceClient(endpoint, credential).createContainer(CONTAINER);
  } catch (error) {
    await stop();
    throw error;
  }
  const query = new URLSearchParams({ endpoint, access_key: ACCOUNT, secret_key: key });
  return {
    location: () => `azblob://${CONTAINER}/${crypto.randomUUID()}?${query}`,
    connection:
      `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${key};BlobEndpoint=${endpoint};`,
    kill,
    start,
    [Symbol.asyncDispose]: stop,
  };
}
