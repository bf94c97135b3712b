/**
 * What each path under `/.svc/v1` takes and answers: the server's route rows, the client's calls and the
 * API's description (`docs/reference/openapi.json`) read the same table.
 */
import type { ActivityEntry } from "./activity.ts";
import type {
  ChallengeRequest,
  ChallengeResponse,
  EnrolKeyRequest,
  EnrolledKey,
  KeyList,
  SessionRequest,
  SessionResponse,
  TokenExchangeError,
  TokenExchangeForm,
  TokenExchangeResponse,
} from "./auth.ts";
import type { BuildEvent } from "./build.ts";
import { type DeploySpec, RESTART_POLICIES } from "./deploy_spec.ts";
import {
  APPLY_UNTIL,
  type ApplyEvent,
  type ApplyResult,
  type DeploymentStatus,
  type InstanceEvent,
  type LogFrame,
} from "./deployment.ts";
import type { ServerInfo, WellKnown } from "./info.ts";
import { CERTIFIED_TYPE, type CertifiedDeployment } from "./ingress_certificates.ts";
import type { Problem } from "./problem.ts";
import type { GcEvent, GcResult, StorageUsage, VerifyEvent } from "./storage.ts";
import { HOST_MODES, type TunnelBody, type TunnelEvent, type TunnelStatus } from "./tunnel.ts";
import type {
  FileChange,
  FileStat,
  InstanceStats,
  NetworkStatus,
  ProcessList,
  VolumeStatus,
} from "./workload.ts";

export const API_PREFIX = "/.svc/v1";
export const NDJSON_TYPE = "application/x-ndjson";

/** The last line of a stream that failed. */
export interface StreamError {
  type: "error";
  error: Problem;
}

/** An archive that the server stored. */
export interface StoredArchive {
  id: string;
}

/** The token endpoint's answer in docker's form: `token` and `access_token` are equal. */
export interface RegistryToken {
  token: string;
  access_token: string;
  /** Seconds. */
  expires_in: number;
  /** RFC 3339. */
  issued_at: string;
}

/** The server's state: "ok", or the phase of its life. */
export interface Health {
  status: string;
}

/** Types of requests and answers, by the name that the table uses. */
export interface Schemas {
  Health: Health;
  WellKnown: WellKnown;
  ServerInfo: ServerInfo;
  BuildEvent: BuildEvent;
  StoredArchive: StoredArchive;
  DeploySpec: DeploySpec;
  CertifiedDeployment: CertifiedDeployment;
  Deployments: DeploymentStatus[];
  DeploymentStatus: DeploymentStatus;
  ApplyResult: ApplyResult;
  ApplyEvent: ApplyEvent;
  LogLine: LogFrame | StreamError;
  EventLine: InstanceEvent | StreamError;
  StatsLine: InstanceStats | StreamError;
  Processes: ProcessList[];
  FileChanges: FileChange[];
  FileStat: FileStat;
  Volumes: VolumeStatus[];
  VolumeStatus: VolumeStatus;
  Networks: NetworkStatus[];
  NetworkStatus: NetworkStatus;
  TunnelBody: TunnelBody;
  Tunnels: TunnelStatus[];
  TunnelStatus: TunnelStatus;
  TunnelEvent: TunnelEvent;
  GcResult: GcResult;
  GcEvent: GcEvent;
  StorageUsage: StorageUsage;
  VerifyEvent: VerifyEvent;
  ActivityLine: ActivityEntry | StreamError;
  ChallengeRequest: ChallengeRequest;
  ChallengeResponse: ChallengeResponse;
  KeySessionRequest: SessionRequest;
  KeySession: SessionResponse;
  KeyList: KeyList;
  EnrolKeyRequest: EnrolKeyRequest;
  EnrolledKey: EnrolledKey;
  TokenExchangeForm: TokenExchangeForm;
  TokenExchangeResponse: TokenExchangeResponse;
  TokenExchangeError: TokenExchangeError;
  RegistryToken: RegistryToken;
  Problem: Problem;
  /** An OpenAPI document. */
  OpenApi: Record<string, unknown>;
  /** Raw bytes. */
  Bytes: Uint8Array;
}

/** "texts" may be repeated; "pairs" too, each NAME=VALUE; a list: one of these words. */
export type Parameter =
  | "text"
  | "bool"
  | "count"
  | "time"
  | "texts"
  | "pairs"
  | readonly string[];

/** Media type → the name of its schema. */
export type Content = Readonly<Record<string, keyof Schemas>>;

export interface Endpoint {
  /** The allowed query parameters; others are refused. Absent: the query is ignored. */
  readonly query?: Readonly<Record<string, Parameter>>;
  readonly body?: Content;
  /** By status. 101 is a WebSocket, whose messages the help describes. */
  readonly answers?: Readonly<Record<number, Content>>;
}

const json = <N extends keyof Schemas>(name: N) => ({ "application/json": name }) as const;
const events = <N extends keyof Schemas>(name: N) => ({ [NDJSON_TYPE]: name }) as const;
const archive = { "application/x-tar": "Bytes" } as const;
const nothing = {} as const;

const applies = {
  body: {
    ...json("DeploySpec"),
    "application/yaml": "DeploySpec",
    [CERTIFIED_TYPE]: "CertifiedDeployment",
  },
  answers: {
    200: { ...json("ApplyResult"), ...events("ApplyEvent") },
    201: json("ApplyResult"),
  },
} as const;
const applyQuery = { until: APPLY_UNTIL, recreate: "bool" } as const;

const changesInstances = { query: { instance: "text" }, answers: { 204: nothing } } as const;
const changesPower = { query: {}, answers: { 200: json("DeploymentStatus") } } as const;

/** "METHOD PATH", the path below {@linkcode API_PREFIX}. */
export const ENDPOINTS = {
  "GET /info": { answers: { 200: json("ServerInfo") } },
  "GET /openapi.json": { answers: { 200: json("OpenApi") } },
  "GET /activity": {
    query: { follow: "bool", tail: "text", since: "time" },
    answers: { 200: events("ActivityLine") },
  },
  "POST /build": {
    query: {
      t: "texts",
      dockerfile: "text",
      target: "text",
      platform: "text",
      buildarg: "pairs",
      label: "pairs",
      nocache: "bool",
      reproducible: "bool",
      output: "texts",
      annotation: "texts",
      cachefrom: "texts",
      cacheto: "texts",
      attest: "texts",
      buildcontext: "pairs",
      addhost: "texts",
      pull: "bool",
      network: ["default", "none", "host"],
      allow: "texts",
      remote: "text",
    },
    body: archive,
    answers: { 200: events("BuildEvent") },
  },
  "GET /build/attach": { answers: { 101: nothing } },
  "POST /build/inputs": { body: archive, answers: { 201: json("StoredArchive") } },
  "GET /build/outputs/{id}": { answers: { 200: archive } },
  "GET /deployments": { query: {}, answers: { 200: json("Deployments") } },
  "POST /deployments": { query: { source: "text", ...applyQuery }, ...applies },
  "GET /deployments/{name}": { query: {}, answers: { 200: json("DeploymentStatus") } },
  "PUT /deployments/{name}": { query: applyQuery, ...applies },
  "GET /deployments/{name}/spec": { query: {}, answers: { 200: json("DeploySpec") } },
  "DELETE /deployments/{name}": {
    query: { wait: "bool" },
    answers: { 202: nothing, 204: nothing },
  },
  "POST /deployments/{name}/start": changesPower,
  "POST /deployments/{name}/stop": changesPower,
  "POST /deployments/{name}/restart": changesPower,
  "GET /deployments/{name}/logs": {
    query: {
      follow: "bool",
      tail: "text",
      since: "time",
      until: "time",
      timestamps: "bool",
      instance: "text",
      stdout: "bool",
      stderr: "bool",
    },
    answers: { 200: { ...events("LogLine"), "text/plain": "Bytes" } },
  },
  "GET /deployments/{name}/exec": {
    query: {
      command: "texts",
      env: "pairs",
      user: "text",
      workdir: "text",
      instance: "text",
      stdin: "bool",
      tty: "bool",
      columns: "count",
      rows: "count",
      shell: "texts",
      agent: "bool",
    },
    answers: { 101: nothing },
  },
  "GET /deployments/{name}/attach": {
    query: { instance: "text", stdin: "bool", columns: "count", rows: "count" },
    answers: { 101: nothing },
  },
  "GET /deployments/{name}/stats": {
    query: { follow: "bool", interval: "text", instance: "text" },
    answers: { 200: events("StatsLine") },
  },
  "GET /deployments/{name}/top": {
    query: { instance: "text" },
    answers: { 200: json("Processes") },
  },
  "GET /deployments/{name}/archive": {
    query: { path: "text", instance: "text" },
    answers: { 200: { ...archive, ...json("FileStat") } },
  },
  "PUT /deployments/{name}/archive": {
    query: { path: "text", instance: "text" },
    body: archive,
    answers: { 204: nothing },
  },
  "GET /deployments/{name}/changes": {
    query: { instance: "text" },
    answers: { 200: json("FileChanges") },
  },
  "GET /deployments/{name}/export": { query: { instance: "text" }, answers: { 200: archive } },
  "POST /deployments/{name}/signal": {
    query: { signal: "text", instance: "text" },
    answers: { 204: nothing },
  },
  "POST /deployments/{name}/update": {
    query: {
      cpus: "text",
      memory: "text",
      reservedMemory: "text",
      restart: RESTART_POLICIES,
      maxAttempts: "count",
      instance: "text",
    },
    answers: { 204: nothing },
  },
  "POST /deployments/{name}/pause": changesInstances,
  "POST /deployments/{name}/unpause": changesInstances,
  "GET /deployments/{name}/forward": {
    query: { port: "count", protocol: ["tcp", "udp"] },
    answers: { 101: nothing },
  },
  "GET /events": { query: { deployment: "texts" }, answers: { 200: events("EventLine") } },
  "GET /volumes": { query: {}, answers: { 200: json("Volumes") } },
  "GET /volumes/{name}": { query: {}, answers: { 200: json("VolumeStatus") } },
  "DELETE /volumes/{name}": { query: {}, answers: { 204: nothing } },
  "GET /networks": { query: {}, answers: { 200: json("Networks") } },
  "GET /networks/{name}": { query: {}, answers: { 200: json("NetworkStatus") } },
  "DELETE /networks/{name}": { query: {}, answers: { 204: nothing } },
  "GET /session": { answers: { 101: nothing } },
  "GET /ingress/tunnel": {
    query: { hostMode: HOST_MODES, host: "text" },
    answers: { 101: nothing },
  },
  "GET /caretaker/attach": { query: { instance: "text" }, answers: { 101: nothing } },
  "GET /tunnels": { query: {}, answers: { 200: json("Tunnels") } },
  "POST /tunnels": {
    query: {},
    body: json("TunnelBody"),
    answers: { 200: events("TunnelEvent"), 201: json("TunnelStatus") },
  },
  "GET /tunnels/{id}": { query: {}, answers: { 200: json("TunnelStatus") } },
  "DELETE /tunnels/{id}": { query: {}, answers: { 204: nothing } },
  "POST /gc": {
    query: { dryRun: "bool", idle: "text" },
    answers: { 200: { ...json("GcResult"), ...events("GcEvent") } },
  },
  "GET /storage": { answers: { 200: json("StorageUsage") } },
  "POST /storage/verify": {
    query: { quarantine: "bool" },
    answers: { 200: events("VerifyEvent") },
  },
  "POST /auth/challenge": {
    body: json("ChallengeRequest"),
    answers: { 200: json("ChallengeResponse") },
  },
  "POST /auth/session": { body: json("KeySessionRequest"), answers: { 201: json("KeySession") } },
  "GET /auth/keys": { answers: { 200: json("KeyList") } },
  "POST /auth/keys": {
    body: json("EnrolKeyRequest"),
    answers: { 200: json("EnrolledKey"), 201: json("EnrolledKey") },
  },
  "DELETE /auth/keys/{fingerprint}": { answers: { 204: nothing } },
  "POST /auth/token": {
    body: { "application/x-www-form-urlencoded": "TokenExchangeForm" },
    answers: { 200: json("TokenExchangeResponse"), 400: json("TokenExchangeError") },
  },
  "GET /auth/registry": { answers: { 200: json("RegistryToken") } },
} as const satisfies Record<string, Endpoint>;

export type EndpointName = keyof typeof ENDPOINTS;

type Entry<K extends EndpointName> = (typeof ENDPOINTS)[K];

type MethodOf<K> = K extends `${infer M} ${string}` ? M : never;

/** The names in braces. */
type ParamOf<P> = P extends `${string}{${infer N}}${infer Rest}` ? N | ParamOf<Rest> : never;

type QueryOf<K extends EndpointName> = Entry<K> extends { query: infer Q } ? keyof Q : never;

/** The type under a media type of a content. */
type Holds<C, M extends string> = C extends Record<M, infer N extends keyof Schemas> ? Schemas[N]
  : never;

type AnswersOf<K extends EndpointName> = Entry<K> extends { answers: infer A } ? A[keyof A] : never;

/** The type of a JSON answer. */
export type JsonOf<K extends EndpointName> = Holds<AnswersOf<K>, "application/json">;

/** The type of a line in a streamed answer. */
export type EventOf<K extends EndpointName> = Holds<AnswersOf<K>, typeof NDJSON_TYPE>;

/** The body of a request: a JSON value, or raw data in one of the endpoint's media types. */
type BodyOf<K extends EndpointName> = Entry<K> extends { body: infer B } ?
    | { json: Holds<B, "application/json"> }
    | { body: ReadableStream<Uint8Array> | string; contentType: keyof B & string }
  : unknown;

/** The arguments of a call, as the table defines them. */
export type CallOf<K extends EndpointName> =
  & { query?: URLSearchParams | { [N in QueryOf<K>]?: string } }
  & ([ParamOf<K>] extends [never] ? unknown : { params: { [N in ParamOf<K>]: string } })
  & BodyOf<K>;

type Filled<P> = P extends `${infer Head}{${string}}${infer Rest}`
  ? `${Head}${string}${Filled<Rest>}`
  : P;

/** Paths below the prefix that are WebSockets, with their parameters filled in. */
export type SocketPath = {
  [K in EndpointName]: Entry<K> extends { answers: { 101: unknown } }
    ? K extends `GET ${infer P}` ? Filled<P> : never
    : never;
}[EndpointName];

/** The path below the prefix, with its parameters filled in. */
export function endpointPath(name: EndpointName, params: Record<string, string> = {}): string {
  return name.slice(name.indexOf(" ") + 1)
    .replaceAll(/\{(\w+)\}/g, (_, param: string) => encodeURIComponent(params[param]));
}

/** The part of a route's row that comes from the table: method, path, query, body and answers. */
export function endpoint<K extends EndpointName>(
  name: K,
): Endpoint & { method: MethodOf<K>; path: string } {
  const [method, path] = name.split(" ");
  return { method: method as MethodOf<K>, path: `${API_PREFIX}${path}`, ...ENDPOINTS[name] };
}

/** Names of an endpoint's query parameters. */
export const parametersOf = (name: EndpointName): string[] =>
  Object.keys((ENDPOINTS[name] as Endpoint).query ?? {});
