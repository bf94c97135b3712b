/** Addresses that carry a shared access signature for reading one blob. */
import type { BlobClient, UserDelegationKey } from "@azure/storage-blob";
import type { Account } from "./account.ts";

/** Milliseconds by which clocks may differ. */
const SKEW_MS = 300_000;
/** Milliseconds that a user delegation key is valid; it is used for half of that time. */
const KEY_MS = 7_200_000;
/** Milliseconds until signing is tried again after a refusal. */
const REFUSED_MS = 300_000;

export class Signer {
  #key: { value: Promise<UserDelegationKey>; until: number } | undefined;
  #refusedUntil = 0;

  constructor(private readonly account: Account) {}

  /** The key for signing with a token credential: the service issues it for a limited time. */
  #delegated(now: number): Promise<UserDelegationKey> {
    if (!this.#key || this.#key.until < now) {
      const value = this.account.service.getUserDelegationKey(
        new Date(now - SKEW_MS),
        new Date(now + KEY_MS),
      );
      this.#key = { value, until: now + KEY_MS / 2 };
      value.catch(() => this.#key = undefined);
    }
    return this.#key.value;
  }

  /** Undefined: the credential is itself a signature, or may not sign. */
  async sign(blob: BlobClient, seconds: number): Promise<string | undefined> {
    const { BlobSASPermissions, generateBlobSASQueryParameters } = await import(
      "@azure/storage-blob"
    );
    const { by, service } = this.account;
    const now = Date.now();
    if (by.kind === "sas" || now < this.#refusedUntil) return undefined;
    const what = {
      containerName: blob.containerName,
      blobName: blob.name,
      permissions: BlobSASPermissions.parse("r"),
      startsOn: new Date(now - SKEW_MS),
      expiresOn: new Date(now + seconds * 1000),
    };
    if (by.kind === "key") return `${blob.url}?${generateBlobSASQueryParameters(what, by.key)}`;
    let key: UserDelegationKey;
    try {
      key = await this.#delegated(now);
    } catch (error) {
      if ((error as { statusCode?: number }).statusCode !== 403) throw error;
      this.#refusedUntil = now + REFUSED_MS;
      return undefined;
    }
    return `${blob.url}?${generateBlobSASQueryParameters(what, key, service.accountName)}`;
  }
}
