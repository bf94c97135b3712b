/**
 * Attestations in BuildKit's form: for each image of an index a manifest of in-toto statements. The index
 * entry of that manifest names the image.
 */
import type { AttestSpec } from "../../api/build_attest.ts";
import { SvcError } from "../../base/errors.ts";
import { MEDIA } from "../../oci/types.ts";
import type { Extra, SolvedPlan } from "../export/assemble.ts";
import { blobOf, documentOf, encodeDocument, type PlatformContent } from "../export/content.ts";
import type { Engine } from "../solve/engine_context.ts";
import { imagePurl, provenance, PROVENANCE_TYPE, type ProvenanceInput } from "./provenance.ts";
import type { FoundPackage } from "./sbom/package.ts";
import { scan, spdxDocument } from "./sbom/spdx.ts";
import { openTree } from "./sbom/tree.ts";

const STATEMENT = "https://in-toto.io/Statement/v0.1";
const IN_TOTO = "application/vnd.in-toto+json";
const SPDX_TYPE = "https://spdx.dev/Document";

export interface AttestOptions {
  solved: readonly SolvedPlan[];
  specs: readonly AttestSpec[];
  /** Names of the image. */
  names: readonly string[];
  input: Omit<ProvenanceInput, "finishedOn">;
  signal: AbortSignal;
}

interface Statement {
  predicateType: string;
  predicate: unknown;
}

/** Refuses attestations that cannot be made, before any work is done. */
export function checkAttestations(
  specs: readonly AttestSpec[],
  outputs: readonly { type: string; dockerTypes: boolean }[],
): void {
  if (specs.length === 0) return;
  if (outputs.some(({ type, dockerTypes }) => dockerTypes && type !== "docker")) {
    throw new SvcError(
      "argument_invalid",
      "Cannot attest: docker's media types have no place for it",
      {
        help: "leave oci-mediatypes=false out",
      },
    );
  }
}

export class Attestations {
  #engine: Engine;
  #options: AttestOptions;
  /** Packages by platform: one scan serves every form of the image. */
  #packages = new Map<SolvedPlan, Promise<FoundPackage[]>>();

  constructor(engine: Engine, options: AttestOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  /** The attestation manifests, one for each image. */
  async extras(images: readonly PlatformContent[]): Promise<Extra[]> {
    const { solved } = this.#options;
    return await Promise.all(images.map((image, at) => this.#extra(solved[at], image)));
  }

  async #extra(solved: SolvedPlan, image: PlatformContent): Promise<Extra> {
    const statements = await this.#statements(solved, image);
    const subject = this.#subjects(image);
    const layers = statements.map(({ predicateType, predicate }) => {
      const text = encodeDocument({ _type: STATEMENT, predicateType, subject, predicate });
      const blob = blobOf(IN_TOTO, text);
      const annotations = { "in-toto.io/predicate-type": predicateType };
      return { ...blob, descriptor: { ...blob.descriptor, annotations } };
    });
    const config = blobOf(
      MEDIA.config,
      encodeDocument({
        architecture: "unknown",
        os: "unknown",
        config: {},
        rootfs: { type: "layers", diff_ids: layers.map(({ descriptor }) => descriptor.digest) },
      }),
    );
    const document = documentOf(MEDIA.manifest, {
      schemaVersion: 2,
      mediaType: MEDIA.manifest,
      config: config.descriptor,
      layers: layers.map(({ descriptor }) => descriptor),
    });
    return {
      document,
      blobs: [...layers, config],
      entry: {
        annotations: {
          "vnd.docker.reference.digest": image.manifest.digest,
          "vnd.docker.reference.type": "attestation-manifest",
        },
        platform: { architecture: "unknown", os: "unknown" },
      },
    };
  }

  #subjects({ platform, manifest }: PlatformContent): unknown[] {
    const [algorithm, hex] = manifest.digest.split(":");
    const { names } = this.#options;
    const all = names.length > 0 ? names.map((name) => imagePurl(name, platform)) : ["_"];
    return all.map((name) => ({ name, digest: { [algorithm]: hex } }));
  }

  async #statements(solved: SolvedPlan, image: PlatformContent): Promise<Statement[]> {
    const { specs, input, names } = this.#options;
    const made: Statement[] = [];
    for (const spec of specs) {
      if (spec.type === "provenance") {
        const predicate = provenance(solved.plan, { ...input, finishedOn: Date.now() }, spec);
        made.push({ predicateType: PROVENANCE_TYPE, predicate });
        continue;
      }
      const packages = await this.#scanned(solved);
      const created = solved.plan.epoch ?? Math.floor(Date.now() / 1000);
      const predicate = spdxDocument(packages, {
        name: names[0] ?? image.manifest.digest,
        created,
        tool: `svc-${input.version}`,
      });
      made.push({ predicateType: SPDX_TYPE, predicate });
    }
    return made;
  }

  #scanned(solved: SolvedPlan): Promise<FoundPackage[]> {
    let found = this.#packages.get(solved);
    if (!found) this.#packages.set(solved, found = this.#scan(solved));
    return found;
  }

  async #scan({ plan, outcomes }: SolvedPlan): Promise<FoundPackage[]> {
    const { root } = plan;
    const snapshot = typeof root === "string" ? undefined : outcomes.get(root)?.snapshot;
    await using view = await this.#engine.workspace.view(snapshot);
    return await scan(openTree(view.root), this.#options.signal);
  }
}
