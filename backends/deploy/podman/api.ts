/** Podman's own routes, in the oldest form that podman 4 and 5 have. */
export const LIBPOD = "/v4.0.0/libpod";
