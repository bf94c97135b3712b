/**
 * The engines that the contract of deploy backends runs on, and what each of them has not that tests need, with
 * the reason. The suites read it by their name, and `scripts/docs.ts` makes a page of it.
 */
import { BARE_FIELDS } from "../../backends/deploy/bare/fields.ts";
import { CONTAINERD_FIELDS } from "../../backends/deploy/containerd/fields.ts";
import { DOCKERHOST_FIELDS } from "../../backends/deploy/dockerhost/fields.ts";
import { INCUS_FIELDS } from "../../backends/deploy/incus/fields.ts";
import { PODMAN_FIELDS } from "../../backends/deploy/podman/fields.ts";
import type { FieldRules } from "../../lib/deploy/fields.ts";
import type { Ability } from "./deploy_suite.ts";

export interface Engine {
  /** The backend's own list. */
  readonly fields: FieldRules;
  /** Why the engine has not an ability that tests of the contract need; an ability that it has is not here. */
  readonly lacks: Readonly<Partial<Record<Ability, string>>>;
}

const DOCKER: Engine = {
  fields: DOCKERHOST_FIELDS,
  lacks: {
    "attach.end": "the engine ends the input with whoever detaches, or never",
    "files.holes":
      "the engine's archives have zeros for holes, and so have the files that it unpacks",
    "files.linked": "the engine gives the owner once more with each further name",
    "files.memory": "the engine's archives leave out what is in memory",
    "files.whole": "the engine removes a file before it writes the one that takes its place",
  },
};

const PODMAN = {
  fields: PODMAN_FIELDS,
  lacks: {
    update:
      "podman 4 changes no container that is made, and 5 none of a user without control groups",
    "attach.stays": "podman ends the input with the first who was attached and leaves",
    "exec.groups": "podman gives the groups to the main process alone",
    "files.beside":
      "podman follows links to what is read-only while the container does not run: nothing is written then",
    "files.holes": "podman's archives have zeros for holes, and so have the files that it unpacks",
    "files.linked": "podman gives the owner once more with each further name",
    "files.links": "podman copies what a link leads to",
    "files.owners": "podman's archives give everything to the container's user",
    "files.whole": "podman removes a file before it writes the one that takes its place",
    oom:
      "podman has no event for it, and 4.3 does not know it on control groups of the first version",
  },
};

const ROOTLESS = {
  ...PODMAN,
  lacks: {
    ...PODMAN.lacks,
    dial: "addresses of rootless podman's containers lead nowhere from the host",
  },
};

const CONTAINERD: Engine = {
  fields: CONTAINERD_FIELDS,
  lacks: {
    load: "images are pushed into its store, through the registry",
  },
};

/** By the name of the suite, which is the test's. */
export const ENGINES = {
  bare: {
    fields: BARE_FIELDS,
    lacks: {
      images: "images are unpacked into snapshots, and not kept",
      load: "images are unpacked into snapshots, and not kept",
    },
  },
  "containerd 1.6": CONTAINERD,
  "containerd 2": CONTAINERD,
  "dockerhost, Docker 20.10, graph store": DOCKER,
  "dockerhost, Docker 28, graph store": DOCKER,
  "dockerhost, Docker 28, containerd store": DOCKER,
  "podman 4.3": PODMAN,
  "podman 5": PODMAN,
  "podman 4.3, rootless": ROOTLESS,
  "podman 5, rootless": ROOTLESS,
  incus: {
    fields: INCUS_FIELDS,
    lacks: {
      images: "Incus keeps images unpacked, and under names of its own",
      update: "an instance is made anew",
      load: "Incus takes OCI images from registries alone",
      oom: "Incus does not tell it",
      "attach.pipe": "the input of an instance is a terminal",
      "attach.end": "the input of an instance is a terminal, which has no end",
      "attach.size": "Incus tells a console no size",
      "files.changes": "Incus does not tell what changed in an instance",
      "files.holes": "Incus tells no holes of files, and makes none",
      "files.same": "Incus does not tell which names are one file's",
      "files.special": "Incus makes no pipes, and gives links to root",
      "exec.groups": "Incus sets one group",
      "logs.bytes":
        "Incus does not tell where a piece of a console begins: of the same text again and again some may be missing",
      "logs.streams": "both streams of an instance are its console",
      "network.host": "Incus's containers have networks of their own",
    },
  },
} as const satisfies Record<string, Engine>;

export type EngineName = keyof typeof ENGINES;
