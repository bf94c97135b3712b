/** The caretakers of this server, from its settings. */
import { loadInstallationSecret } from "../../auth/installation_secret.ts";
import { AUTH } from "../../config/server/auth.ts";
import { ADVERTISED, COMPANIONS } from "../../config/server/general.ts";
import type { SettingsOf } from "../../config/table.ts";
import { ServerCaretakers } from "./caretakers.ts";
import { CaretakerTokens } from "./tokens.ts";

/** The options that this module reads. */
export const CARETAKER_READS = [AUTH, ADVERTISED, COMPANIONS] as const;

export interface OpenCaretakersOptions {
  config: SettingsOf<typeof CARETAKER_READS>;
  dataDir: string;
}

/** Without both settings there are no companions, and so no secret is made for their tokens. */
export async function openCaretakers(
  { config: { agentImage: image, advertiseUrl: url, installationSecret }, dataDir }:
    OpenCaretakersOptions,
): Promise<ServerCaretakers> {
  if (image === undefined || url === undefined) return new ServerCaretakers({ image, url });
  const secret = await loadInstallationSecret({
    dataDir,
    configured: installationSecret,
    warn: () => {/* whoever checks credentials with it says so */},
  });
  return new ServerCaretakers({ image, url, tokens: new CaretakerTokens(secret) });
}
