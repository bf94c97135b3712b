/**
 * The routes of the Docker Engine API as data. A family of routes is one file with one list, which routes.ts puts
 * together; a route's handler gets the {@linkcode Call} and what all routes share, the {@linkcode DockerApi}.
 */
import type { DockerApi } from "./api.ts";
import type { Answer, Call } from "./request.ts";

export type Handler = (call: Call, api: DockerApi) => Promise<Answer | void>;

export interface ApiRoute {
  method: "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "OPTIONS";
  /**
   * "/containers/{id}/json". A name with an asterisk, "{name*}", also matches slashes, as the names of images have
   * them. Every path may have "/v1.NN" before it.
   */
  path: string;
  handler: Handler;
}
