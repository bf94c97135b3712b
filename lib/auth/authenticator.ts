/** All verifiers of a server as one question: who sends this request? */
import type { AuthMethod } from "../api/auth.ts";
import type { Connection, Identity } from "../api/route.ts";
import { refusedCredential, tokenOf } from "./credential.ts";
import { TokenCache } from "./token_cache.ts";
import type { PresentedToken, Verified, Verifier } from "./verifier.ts";

export interface AuthenticatorOptions {
  /** In this order; the first that knows a token decides. */
  verifiers: readonly Verifier[];
  /** What clients are told; `mtls` among them: client certificates identify. */
  methods: readonly AuthMethod[];
  cache?: TokenCache;
}

export class Authenticator {
  readonly methods: readonly AuthMethod[];
  readonly #verifiers: readonly Verifier[];
  readonly #certificates: boolean;
  readonly #cache: TokenCache;

  constructor({ verifiers, methods, cache = new TokenCache() }: AuthenticatorOptions) {
    this.#verifiers = verifiers;
    this.methods = methods;
    this.#certificates = methods.includes("mtls");
    this.#cache = cache;
  }

  /**
   * Undefined: the request carries no credential. A token wins over a certificate; one that is presented
   * and not good is refused, whatever else there is. Answers at once for tokens that are known already.
   * Throws `unauthorized`, or `upstream_failed` where it could not be told.
   */
  identify(
    request: Request,
    { certificate }: Connection,
    basic: boolean,
  ): Promise<Identity> | Identity | undefined {
    if (this.#certificates && certificate?.refused !== undefined) {
      throw refusedCredential(`the client certificate does not verify: ${certificate.refused}`);
    }
    const header = request.headers.get("authorization");
    if (header !== null) return this.#ofToken(tokenOf(header, { basic }));
    if (!this.#certificates || certificate?.commonName === undefined) return undefined;
    return { subject: certificate.commonName, scopes: ["api"], method: "mtls" };
  }

  /** Whose token this is, and until when. Throws as `identify` does. */
  async verify(token: PresentedToken): Promise<Verified> {
    return this.#cache.get(token) ?? await this.#verify(token);
  }

  #ofToken(token: PresentedToken): Promise<Identity> | Identity {
    const known = this.#cache.get(token);
    return known ? known.identity : this.#verify(token).then(({ identity }) => identity);
  }

  async #verify(token: PresentedToken): Promise<Verified> {
    for (const verifier of this.#verifiers) {
      const verified = await verifier.verify(token);
      if (!verified) continue;
      this.#cache.set(token, verified);
      return verified;
    }
    throw refusedCredential("no verifier knows it");
  }
}
