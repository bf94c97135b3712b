/** Whether this server can deploy: what it says at its start, in `/info` and to `svc doctor`. */
import { asSvcError, SvcError } from "../base/errors.ts";
import type { ServerInfo } from "../api/info.ts";
import type { Deployments } from "../deploy/deployments.ts";

export interface DeployChoice {
  /** The selected backend's name. */
  name: string;
  /**
   * Constructed on first use. Throws `not_in_build` or `prerequisite_missing` where the backend cannot be
   * opened.
   */
  backend: () => Promise<Deployments>;
  /** Another value of SVC_DEPLOY_BACKEND that would work on this host as it is. Absent: nobody knows of one. */
  otherwise?: () => Promise<string | undefined>;
}

export interface DeployFacts {
  info: ServerInfo["deploy"];
  /** Why nothing can be deployed; its help says what to do. */
  refused?: SvcError;
}

/** Opens the backend: only that tells whether its prerequisites are met. */
export async function deployFacts(
  { name, backend, otherwise }: DeployChoice,
): Promise<DeployFacts> {
  try {
    const open = await backend();
    await open.ready?.();
    const abilities = Object.entries(open.caps).filter(([, value]) => value !== undefined);
    const engine = await open.about?.();
    return {
      info: {
        backend: open.name,
        available: true,
        ...engine !== undefined && { engine },
        caps: abilities.map(([ability]) => ability).sort(),
      },
    };
  } catch (thrown) {
    const refused = withAlternative(asSvcError(thrown), await otherwise?.());
    const reason = `${refused.message}; ${refused.help}`;
    return { info: { backend: name, available: false, reason, caps: [] }, refused };
  }
}

function withAlternative(error: SvcError, backend: string | undefined): SvcError {
  if (backend === undefined) return error;
  const { code, message, help, detail } = error;
  return new SvcError(code, message, {
    cause: error,
    help: `${help}; this host has what SVC_DEPLOY_BACKEND=${backend} needs`,
    detail,
  });
}
