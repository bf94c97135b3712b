/** The account and credentials of a location, found like Azure's own tools do (the standard chain). */
import type { TokenCredential } from "@azure/identity";
import type {
  BlobServiceClient,
  StoragePipelineOptions,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { SvcError } from "../../../lib/base/errors.ts";
import type { BucketOptions } from "../shared/bucket.ts";
import type { AzureLocation } from "./location.ts";

export interface Account {
  service: BlobServiceClient;
  /** How requests are signed. A SAS is part of the addresses. */
  by: { kind: "key"; key: StorageSharedKeyCredential } | { kind: "sas" } | {
    kind: "token";
    source: TokenCredential;
  };
}

export interface AccountOptions {
  env: BucketOptions["env"];
  pipeline: StoragePipelineOptions;
  /** Limits the time to wait for a token. */
  limited: (source: TokenCredential) => TokenCredential;
}

/** Throws `config_invalid` where no account is given, or the credentials cannot be read. */
export async function openAccount(
  location: AzureLocation,
  { env = {}, pipeline, limited }: AccountOptions,
): Promise<Account> {
  const { BlobServiceClient, newPipeline, StorageSharedKeyCredential } = await import(
    "@azure/storage-blob"
  );
  const refuse = (why: string, cause?: unknown) =>
    new SvcError("config_invalid", `Cannot use storage ${location.shown}: ${why}`, {
      cause,
      help: "add ?account=NAME, or set AZURE_STORAGE_ACCOUNT or AZURE_STORAGE_CONNECTION_STRING",
    });
  const text = env.AZURE_STORAGE_CONNECTION_STRING;
  if (text && !location.account && !location.endpoint) {
    let service: BlobServiceClient;
    try {
      service = BlobServiceClient.fromConnectionString(text, pipeline);
    } catch (cause) {
      throw refuse("AZURE_STORAGE_CONNECTION_STRING cannot be read", cause);
    }
    const { credential } = service;
    const by = credential instanceof StorageSharedKeyCredential
      ? { kind: "key" as const, key: credential }
      : { kind: "sas" as const };
    return { service, by };
  }
  const account = location.account ?? env.AZURE_STORAGE_ACCOUNT;
  const url = location.endpoint ?? (account && `https://${account}.blob.core.windows.net`);
  if (!url) throw refuse("no account is named");
  const secret = location.key ?? env.AZURE_STORAGE_KEY;
  if (secret) {
    if (!account) throw refuse("a key needs the name of its account");
    const key = new StorageSharedKeyCredential(account, secret);
    return {
      service: new BlobServiceClient(url, newPipeline(key, pipeline)),
      by: { kind: "key", key },
    };
  }
  const sas = env.AZURE_STORAGE_SAS_TOKEN;
  if (sas) {
    const service = new BlobServiceClient(
      `${url}?${sas.replace(/^\?/, "")}`,
      newPipeline(undefined, pipeline),
    );
    return { service, by: { kind: "sas" } };
  }
  const { DefaultAzureCredential } = await import("@azure/identity");
  const source = limited(new DefaultAzureCredential());
  const service = new BlobServiceClient(url, newPipeline(source, pipeline));
  return { service, by: { kind: "token", source } };
}
