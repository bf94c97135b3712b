/** Route rows are declared in lib/api, where registry and server may both read them. */
export * from "../api/route.ts";
