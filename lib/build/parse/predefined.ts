/** Predefined variable names of the Dockerfile language, and its instructions. */

/** Set by the builder in the global scope; a stage sees one after `ARG NAME`. */
export const PLATFORM_ARGS = [
  "BUILDPLATFORM",
  "BUILDOS",
  "BUILDOSVERSION",
  "BUILDARCH",
  "BUILDVARIANT",
  "TARGETPLATFORM",
  "TARGETOS",
  "TARGETOSVERSION",
  "TARGETARCH",
  "TARGETVARIANT",
  "TARGETSTAGE",
] as const;

/** May be given with `--build-arg` without an ARG; RUN sees them, history and the cache key do not. */
export const PROXY_ARGS = [
  "HTTP_PROXY",
  "http_proxy",
  "HTTPS_PROXY",
  "https_proxy",
  "FTP_PROXY",
  "ftp_proxy",
  "NO_PROXY",
  "no_proxy",
  "ALL_PROXY",
  "all_proxy",
] as const;

/** PATH of a stage whose base image sets none. */
export const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Runs commands in shell form where neither a SHELL instruction nor the base image sets a shell. */
export const DEFAULT_SHELL = ["/bin/sh", "-c"] as const;

/** In capitals, in the order of the reference. */
export const INSTRUCTIONS = [
  "ADD",
  "ARG",
  "CMD",
  "COPY",
  "ENTRYPOINT",
  "ENV",
  "EXPOSE",
  "FROM",
  "HEALTHCHECK",
  "LABEL",
  "MAINTAINER",
  "ONBUILD",
  "RUN",
  "SHELL",
  "STOPSIGNAL",
  "USER",
  "VOLUME",
  "WORKDIR",
] as const;

export type Keyword = typeof INSTRUCTIONS[number];
