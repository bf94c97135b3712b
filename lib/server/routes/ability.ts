/** What routes ask before they use an ability of the backend. */
import { SvcError } from "../../base/errors.ts";
import type { DeployCaps } from "../../deploy/caps.ts";
import type { Deployments } from "../../deploy/deployments.ts";
import type { ManagementDeps } from "../deps.ts";
import { unknownDeployment } from "./deployments.ts";

type Ability = keyof DeployCaps;

export interface Able<K extends Ability> {
  backend: Deployments;
  ability: NonNullable<DeployCaps[K]>;
}

/** The ability of that name. Throws `unsupported` where the backend lacks it; `attempt`: "list volumes". */
export async function requireAbility<K extends Ability>(
  { deploy }: ManagementDeps,
  name: K,
  attempt: string,
): Promise<Able<K>> {
  const backend = await deploy.backend();
  const ability = backend.caps[name];
  if (ability !== undefined) return { backend, ability: ability as NonNullable<DeployCaps[K]> };
  throw new SvcError(
    "unsupported",
    `Cannot ${attempt}: the deploy backend ${backend.name} cannot do it`,
  );
}

/** {@linkcode requireAbility} for a deployment that has to be there; `attempt`: "pause". */
export async function requireAbilityFor<K extends Ability>(
  deps: ManagementDeps,
  name: K,
  attempt: string,
  deployment: string,
): Promise<Able<K>> {
  const able = await requireAbility(deps, name, `${attempt} ${deployment}`);
  if (!await able.backend.status(deployment)) throw unknownDeployment(attempt, deployment);
  return able;
}
