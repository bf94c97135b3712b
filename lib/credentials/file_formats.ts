/** The text of a credential that is delivered as a file. */
import { type FileFormat, VARIABLE } from "../api/credentials.ts";
import { SvcError } from "../base/errors.ts";
import { awsKeys, type Credential, oneValue } from "./credential.ts";

const undeliverable = (name: string, why: string) =>
  new SvcError("spec_invalid", `Cannot deliver credential ${name} as a file: ${why}`, {
    help: "choose another format: json takes any values",
  });

/** The document of the endpoint, and of files with format json. */
export const asDocument = ({ values, expiration }: Credential) => ({
  values,
  ...(expiration && { expiration: expiration.toISOString() }),
});

/** Quoted so that a shell reads it back; plain where nothing has to be quoted. */
function assignment(name: string, [key, value]: [string, string]): string {
  if (!VARIABLE.test(key)) {
    throw undeliverable(name, `${JSON.stringify(key)} is no variable's name`);
  }
  const plain = /^[\w@%+=:,./-]*$/.test(value);
  return `${key}=${plain ? value : `'${value.replaceAll("'", "'\\''")}'`}\n`;
}

function awsFile(name: string, credential: Credential): string {
  const { accessKeyId, secretAccessKey, sessionToken } = awsKeys(name, credential);
  const lines = [
    "[default]",
    `aws_access_key_id = ${accessKeyId}`,
    `aws_secret_access_key = ${secretAccessKey}`,
    ...sessionToken === undefined ? [] : [`aws_session_token = ${sessionToken}`],
  ];
  if (lines.some((line) => /[\r\n]/.test(line))) throw undeliverable(name, "a key has a newline");
  return lines.join("\n") + "\n";
}

/** Throws `spec_invalid` where the values have no such form; no error has any of them. */
export function fileText(
  name: string,
  credential: Credential,
  { format, valueKey }: { format: FileFormat; valueKey?: string },
): string {
  switch (format) {
    case "json":
      return JSON.stringify(asDocument(credential)) + "\n";
    case "env":
      return Object.entries(credential.values).map((one) => assignment(name, one)).join("");
    case "raw":
      return oneValue(name, credential, valueKey);
    case "aws-credentials":
      return awsFile(name, credential);
  }
}
