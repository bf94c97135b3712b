/** Short-lived keys of AWS: of a role, or of a session of the caller's own login. */
import type { Credential } from "./credential.ts";
import { cannotMake, type SourceKind, type SourceRequest } from "./source_kind.ts";

/** Seconds that AWS takes for the two calls. */
const SECONDS = { least: 900, most: 129_600 };

function secondsOf({ name, config: { durationSeconds } }: SourceRequest): number | undefined {
  if (durationSeconds === undefined) return undefined;
  const seconds = Number(durationSeconds);
  if (Number.isInteger(seconds) && seconds >= SECONDS.least && seconds <= SECONDS.most) {
    return seconds;
  }
  throw cannotMake(name, `config.durationSeconds is not ${SECONDS.least} to ${SECONDS.most}`);
}

/** The SDK's words name no secrets: an error's name and what the service says. */
const refusal = (name: string, error: unknown) =>
  cannotMake(
    name,
    `AWS says ${(error as Error).name}`,
    "see `aws sts get-caller-identity` on the caller's machine",
  );

async function make(request: SourceRequest): Promise<Credential> {
  const { name, config, around, signal } = request;
  const { roleArn: RoleArn, externalId: ExternalId, region, profile } = config;
  const DurationSeconds = secondsOf(request);
  const { AssumeRoleCommand, GetSessionTokenCommand, STSClient } = await import(
    "@aws-sdk/client-sts"
  );
  const client = new STSClient({ ...(region && { region }), ...(profile && { profile }) });
  const options = { abortSignal: signal };
  try {
    const { Credentials: keys } = RoleArn === undefined
      ? await client.send(new GetSessionTokenCommand({ DurationSeconds }), options)
      : await client.send(
        new AssumeRoleCommand({
          ...{ RoleArn, ExternalId, DurationSeconds },
          RoleSessionName: config.sessionName ?? `svc-${name}`,
        }),
        options,
      );
    const { AccessKeyId, SecretAccessKey, SessionToken, Expiration } = keys ?? {};
    if (!AccessKeyId || !SecretAccessKey || !SessionToken) {
      throw cannotMake(name, "AWS answers without keys");
    }
    const values = {
      accessKeyId: AccessKeyId,
      secretAccessKey: SecretAccessKey,
      sessionToken: SessionToken,
    };
    return { values, ...(Expiration && { expiration: Expiration }) };
  } catch (error) {
    signal.throwIfAborted();
    around.notice(`credential ${name}: ${(error as Error).message}`);
    throw refusal(name, error);
  } finally {
    client.destroy();
  }
}

export const AWS_STS: SourceKind = {
  help: "short-lived AWS keys by the caller's own AWS login",
  config: {
    roleArn: "the role to take; absent: a session of the login itself",
    sessionName: "the session's name; default svc-NAME",
    externalId: "what the role asks for",
    durationSeconds: "how long the keys are good; 900 to 129600",
    region: "the region of the service; default the login's",
    profile: "the profile of the login; default AWS_PROFILE's",
  },
  make,
};
