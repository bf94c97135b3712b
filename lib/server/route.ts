/** The rows live in api, where registry and server both may read them. */
export * from "../api/route.ts";
