/** The tokens of caretakers: each is for one instance, and good as long as that is there. */
import type { InstallationSecret } from "../../auth/installation_secret.ts";
import { Sealer } from "../../auth/sealed.ts";

/** The scope that such a token has; it is good for no other route. */
const SCOPE = "caretaker";

interface Payload {
  scope: string;
  key: string;
}

export class CaretakerTokens {
  readonly #sealer: Sealer;

  constructor(secret: InstallationSecret) {
    this.#sealer = new Sealer("svcc_", secret.key("svc caretakers 1"));
  }

  mint(key: string): string {
    return this.#sealer.seal({ scope: SCOPE, key } satisfies Payload);
  }

  /** The instance's key; undefined where this server did not make the token. */
  keyOf(token: string): string | undefined {
    const payload = this.#sealer.open(token) as Payload | undefined;
    return payload?.scope === SCOPE ? payload.key : undefined;
  }
}
