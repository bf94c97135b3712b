/** All verifiers of a server, tried in order: who sends this request? */
import type { AuthMethod } from "../api/auth.ts";
import type { ClientCertificate, Connection, Identity } from "../api/route.ts";
import { presentedToken, refusedCredential, tokenOf } from "./credential.ts";
import { TokenCache } from "./token_cache.ts";
import type { PresentedToken, Verified, Verifier } from "./verifier.ts";

export interface AuthenticatorOptions {
  /** In order; the first verifier that knows a token decides. */
  verifiers: readonly Verifier[];
  /** The methods that clients are told. With `mtls` among them, client certificates identify callers. */
  methods: readonly AuthMethod[];
  cache?: TokenCache;
}

export class Authenticator {
  readonly methods: readonly AuthMethod[];
  readonly #verifiers: readonly Verifier[];
  readonly #certificates: boolean;
  readonly #cache: TokenCache;
  /** Identities by certificate: the requests of one connection share one. */
  readonly #presented = new WeakMap<ClientCertificate, Identity>();

  constructor({ verifiers, methods, cache = new TokenCache() }: AuthenticatorOptions) {
    this.#verifiers = verifiers;
    this.methods = methods;
    this.#certificates = methods.includes("mtls");
    this.#cache = cache;
  }

  /**
   * The caller's identity. Undefined: the request carries no credential. A token wins over a certificate. A bad
   * credential is refused even if another one is good. Answers at once for tokens that are already verified.
   * Throws `unauthorized`, or `upstream_failed` where the credential could not be checked.
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
    if (header !== null) return this.#ofToken(tokenOf(header, basic));
    if (!this.#certificates || certificate?.commonName === undefined) return undefined;
    let identity = this.#presented.get(certificate);
    if (!identity) {
      identity = { subject: certificate.commonName, scopes: ["api"], method: "mtls" };
      this.#presented.set(certificate, identity);
    }
    return identity;
  }

  /** The identity of a token, and until when it holds. Throws as `identify` does. */
  async verify(token: PresentedToken): Promise<Verified> {
    return this.#cache.get(token.text) ?? await this.#verify(token);
  }

  #ofToken(text: string): Promise<Identity> | Identity {
    const known = this.#cache.get(text);
    if (known) return known.identity;
    return this.#verify(presentedToken(text)).then(({ identity }) => identity);
  }

  async #verify(token: PresentedToken): Promise<Verified> {
    for (const verifier of this.#verifiers) {
      const verified = await verifier.verify(token);
      if (!verified) continue;
      this.#cache.set(token, verified);
      return verified;
    }
    throw refusedCredential("it is not known here");
  }
}
