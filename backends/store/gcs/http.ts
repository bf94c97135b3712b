/** Requests to the JSON API of Google-style storage: authorized, retried, with errors as `ServiceError`. */
import type { Storage } from "@google-cloud/storage";
import { ATTEMPTS, type BucketOptions, type Call } from "../shared/bucket.ts";
import { ServiceError, STATUS_NAMES } from "../shared/errors.ts";
import { type Answer, BoundedHttp, StalledError, TIMEOUTS, type Timeouts } from "../shared/http.ts";
import { retried } from "../shared/retry.ts";
import type { GcsLocation } from "./location.ts";

export interface GcsRequest extends Call {
  method?: string;
  /** The path below the service's address. */
  path: string;
  query?: Record<string, string | number | undefined>;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  works?: boolean;
}

interface Service {
  storage: Storage;
  base: string;
  /** True for an emulator, which accepts requests without credentials. */
  open: boolean;
}

async function refusal(answer: Answer): Promise<ServiceError> {
  const text = await new Response(answer.body as BodyInit | undefined).text().catch(() => "");
  let told = text.slice(0, 300);
  try {
    told = (JSON.parse(text) as { error?: { message?: string } }).error?.message ?? told;
  } catch {
    // downloads are refused in plain text
  }
  const name = STATUS_NAMES[answer.status] ?? `HTTP ${answer.status}`;
  return new ServiceError(name, answer.status, told || answer.reason);
}

export class GcsHttp {
  readonly timeouts: Timeouts;
  #http: BoundedHttp;
  #attempts: number;
  #env: BucketOptions["env"];
  #service: Promise<Service> | undefined;

  constructor(private readonly location: GcsLocation, options: BucketOptions) {
    this.timeouts = { ...TIMEOUTS, ...options.timeouts };
    this.#http = new BoundedHttp(this.timeouts);
    this.#attempts = options.attempts ?? ATTEMPTS;
    this.#env = options.env;
  }

  async #connect(): Promise<Service> {
    const { Storage } = await import("@google-cloud/storage");
    const emulator = this.#env?.STORAGE_EMULATOR_HOST;
    const open = emulator !== undefined && this.location.endpoint === undefined;
    const at = open
      ? (emulator.includes("://") ? emulator : `http://${emulator}`).replace(/\/$/, "")
      : this.location.endpoint;
    const storage = new Storage(at ? { apiEndpoint: at } : {});
    // Then a service account's key signs the tokens itself, and no token server is asked.
    storage.authClient.useJWTAccessWithScope = true;
    return { storage, base: at ?? storage.apiEndpoint, open };
  }

  /** The SDK with its credentials, and the service's address. */
  service(): Promise<Service> {
    return this.#service ??= this.#connect();
  }

  /** Limits the time of SDK calls, which have no limit of their own. */
  async limited<T>(call: Call, work: () => Promise<T>): Promise<T> {
    const { promise, reject } = Promise.withResolvers<never>();
    const { answerMs } = this.timeouts;
    const timer = setTimeout(() => {
      reject(new StalledError(`no credentials came for ${answerMs} ms`));
    }, answerMs);
    const stop = () => reject(call.signal?.reason);
    call.signal?.addEventListener("abort", stop, { once: true });
    try {
      return await Promise.race([work(), promise]);
    } finally {
      clearTimeout(timer);
      call.signal?.removeEventListener("abort", stop);
    }
  }

  async #authorization(service: Service, call: Call): Promise<Headers> {
    if (service.open) return new Headers();
    try {
      return new Headers(
        await this.limited(call, () => service.storage.authClient.getRequestHeaders()),
      );
    } catch (error) {
      if (error instanceof StalledError || call.signal?.aborted) throw error;
      const why = error instanceof Error ? error.message : String(error);
      throw new ServiceError("CredentialsProviderError", undefined, why, { cause: error });
    }
  }

  /** The answer to a successful request. */
  async send(request: GcsRequest): Promise<Answer> {
    const service = await this.service();
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined) query.set(name, String(value));
    }
    return await retried(this.#attempts, request.signal, async () => {
      const headers = await this.#authorization(service, request);
      for (const [name, value] of Object.entries(request.headers ?? {})) headers.set(name, value);
      const answer = await this.#http.send({
        url: `${service.base}${request.path}?${query}`,
        method: request.method ?? "GET",
        headers,
        body: request.body,
        works: request.works,
        signal: request.signal,
      });
      if (answer.status >= 200 && answer.status < 300) return answer;
      throw await refusal(answer);
    });
  }

  async json<T>(request: GcsRequest): Promise<T> {
    const { body } = await this.send(request);
    return await new Response(body as BodyInit | undefined).json() as T;
  }

  close(): void {
    this.#http.close();
  }
}
