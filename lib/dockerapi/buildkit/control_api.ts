/**
 * The services of BuildKit that docker's clients call: field numbers of moby/buildkit's api/services/control and
 * frontend/gateway.
 */
import { field, many, method } from "../../wire/grpc/method.ts";
import type { Schema } from "../../wire/grpc/protobuf.ts";

/** A whole message that is not looked into: whether it is there matters. */
const OPAQUE: Schema = {};

type Labels = Record<string, string>;

const CACHE_ENTRY: Schema = { type: field(1), attrs: field(2, "labels") };
export interface CacheEntry {
  type: string;
  attrs: Labels;
}

export interface SolveRequest {
  ref: string;
  definition?: unknown;
  exporterDeprecated: string;
  exporterAttrsDeprecated: Labels;
  session: string;
  frontend: string;
  frontendAttrs: Labels;
  cache?: { exports: CacheEntry[]; imports: CacheEntry[] };
  entitlements: string[];
  sourcePolicy?: unknown;
  exporters: CacheEntry[];
}

export const Solve = method<SolveRequest, { exporterResponse: Labels }>(
  "moby.buildkit.v1.Control/Solve",
  {
    ref: field(1),
    definition: field(2, OPAQUE),
    exporterDeprecated: field(3),
    exporterAttrsDeprecated: field(4, "labels"),
    session: field(5),
    frontend: field(6),
    frontendAttrs: field(7, "labels"),
    cache: field(8, { exports: many(4, CACHE_ENTRY), imports: many(5, CACHE_ENTRY) }),
    entitlements: many(9),
    sourcePolicy: field(12, OPAQUE),
    exporters: many(13, CACHE_ENTRY),
  },
  { exporterResponse: field(1, "labels") },
);

export interface Time {
  seconds: number;
  nanos: number;
}
const TIME: Schema = { seconds: field(1, "uint"), nanos: field(2, "uint") };

export interface VertexMessage {
  digest: string;
  name: string;
  cached?: boolean;
  started?: Time;
  completed?: Time;
  error?: string;
}

export interface StatusMessage {
  id: string;
  vertex: string;
  name: string;
  current: number;
  total: number;
  timestamp: Time;
  started?: Time;
  completed?: Time;
}

export interface LogMessage {
  vertex: string;
  timestamp: Time;
  /** 1: standard output, 2: standard error. */
  stream: number;
  msg: Uint8Array;
}

export interface WarningMessage {
  vertex: string;
  level: number;
  short: Uint8Array;
}

export interface StatusResponse {
  vertexes?: VertexMessage[];
  statuses?: StatusMessage[];
  logs?: LogMessage[];
  warnings?: WarningMessage[];
}

export const STATUS_RESPONSE: Schema = {
  vertexes: many(1, {
    digest: field(1),
    name: field(3),
    cached: field(4, "bool"),
    started: field(5, TIME),
    completed: field(6, TIME),
    error: field(7),
  }),
  statuses: many(2, {
    id: field(1),
    vertex: field(2),
    name: field(3),
    current: field(4, "uint"),
    total: field(5, "uint"),
    timestamp: field(6, TIME),
    started: field(7, TIME),
    completed: field(8, TIME),
  }),
  logs: many(3, {
    vertex: field(1),
    timestamp: field(2, TIME),
    stream: field(3, "uint"),
    msg: field(4, "bytes"),
  }),
  warnings: many(4, { vertex: field(1), level: field(2, "uint"), short: field(3, "bytes") }),
};

export const Status = method<{ ref: string }, StatusResponse>(
  "moby.buildkit.v1.Control/Status",
  { ref: field(1) },
  STATUS_RESPONSE,
);

export interface PruneRequest {
  filter: string[];
  all: boolean;
  keepDuration: number;
  reservedSpace: number;
  maxUsedSpace: number;
  minFreeSpace: number;
}

/** One record for each part of the cache that has gone. */
export const Prune = method<PruneRequest, { id: string; size: number }>(
  "moby.buildkit.v1.Control/Prune",
  {
    filter: many(1),
    all: field(2, "bool"),
    keepDuration: field(3, "uint"),
    reservedSpace: field(4, "uint"),
    maxUsedSpace: field(5, "uint"),
    minFreeSpace: field(6, "uint"),
  },
  { id: field(1), size: field(4, "uint") },
);

/** A session's connection within a call: the bytes of its HTTP/2, both ways. */
export const Session = method<{ data: Uint8Array }, { data: Uint8Array }>(
  "moby.buildkit.v1.Control/Session",
  { data: field(1, "bytes") },
  { data: field(1, "bytes") },
);

const PLATFORM: Schema = { architecture: field(1), os: field(2), variant: field(3) };
const VERSION: Schema = { package: field(1), version: field(2), revision: field(3) };
const WORKER: Schema = {
  id: field(1),
  labels: field(2, "labels"),
  platforms: many(3, PLATFORM),
  version: field(5, VERSION),
};

export interface Worker {
  id: string;
  labels: Labels;
  platforms: { architecture: string; os: string; variant?: string }[];
  version: { package: string; version: string; revision: string };
}

export const ListWorkers = method<Record<never, never>, { record: Worker[] }>(
  "moby.buildkit.v1.Control/ListWorkers",
  {},
  { record: many(1, WORKER) },
);

export const Info = method<Record<never, never>, { version: Worker["version"] }>(
  "moby.buildkit.v1.Control/Info",
  {},
  { version: field(1, VERSION) },
);

export const Ping = method<Record<never, never>, {
  frontendCaps: { id: string; enabled: boolean }[];
  llbCaps: { id: string; enabled: boolean }[];
  workers: Worker[];
}>("moby.buildkit.v1.frontend.LLBBridge/Ping", {}, {
  frontendCaps: many(1, { id: field(1), enabled: field(2, "bool") }),
  llbCaps: many(2, { id: field(1), enabled: field(2, "bool") }),
  workers: many(3, WORKER),
});

export interface FrontendRequest {
  definition?: unknown;
  frontend: string;
  frontendOpt: Labels;
  cacheImports: CacheEntry[];
}

const RESULT: Schema = { ref: field(3, { id: field(1) }) };
export interface ResultMessage {
  ref?: { id: string };
}

export const FrontendSolve = method<FrontendRequest, { result: ResultMessage }>(
  "moby.buildkit.v1.frontend.LLBBridge/Solve",
  {
    definition: field(1, OPAQUE),
    frontend: field(2),
    frontendOpt: field(3, "labels"),
    cacheImports: many(12, CACHE_ENTRY),
  },
  { ref: field(1), result: field(3, RESULT) },
);

export const Return = method<
  { result?: ResultMessage; error?: { code: number; message: string } },
  Record<never, never>
>("moby.buildkit.v1.frontend.LLBBridge/Return", {
  result: field(1, RESULT),
  error: field(2, { code: field(1, "uint"), message: field(2) }),
});
