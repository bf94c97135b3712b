/** What an `azblob://` value of SVC_STORAGE says (SPEC.md, "Storage"). */
import { readEndpoint, readKeys, readLocation } from "../shared/location.ts";

export interface AzureLocation {
  container: string;
  /** Empty, or ends with "/": several stores may share a container. */
  prefix: string;
  /** The account's address; absent: the cloud's default for the account name. */
  endpoint?: string;
  /** Absent: the environment's account. */
  account?: string;
  /** Key of the account; absent: the environment's credentials. */
  key?: string;
  shown: string;
}

const FORM = {
  scheme: "azblob",
  noun: "container",
  name: /^(?:[a-z0-9](?:[a-z0-9]|-(?!-)){1,61}[a-z0-9]|\$root)$/,
  parameters: ["account", "endpoint", "access_key", "secret_key"],
  help:
    "write azblob://CONTAINER?account=NAME, with endpoint, or access_key (the account) and secret_key (its key), as needed",
};

/**
 * Reads `azblob://CONTAINER[/PREFIX]?account=&endpoint=&access_key=&secret_key=`, where `access_key` is the
 * account's name. Throws `config_invalid`; no message carries a value of the credentials.
 */
export function parseAzureLocation(value: string): AzureLocation {
  const read = readLocation(value, FORM);
  const keys = readKeys(read);
  const endpoint = readEndpoint(read);
  const account = read.given.get("account") ?? keys?.accessKey;
  if (keys && account !== keys.accessKey) {
    throw read.refuse("account and access_key both name the account, and differ");
  }
  return {
    container: read.name,
    prefix: read.prefix,
    ...(endpoint && { endpoint }),
    ...(account && { account }),
    ...(keys && { key: keys.secretKey }),
    shown: read.shown,
  };
}
