/**
 * Certificates that are sent with a deployment to a backend whose ingress is the cluster's (SPEC.md
 * "IngressCertificate", "Authentication" 6): an apply with this content type.
 */
import type { DeliveredFile } from "./delivered_files.ts";

/** The body is a {@linkcode CertifiedDeployment} in JSON. */
export const CERTIFIED_TYPE = "application/vnd.svc.certified-deployment+json";

/** The ability in `/info` of a backend that accepts certificates. */
export const CERTIFICATES_ABILITY = "ingressCertificates";

/** One certificate, for all the hosts that it was chosen for. */
export interface HostCertificate {
  /** As the spec's `ingress.hosts` has them: lower case, IDN in punycode. */
  hosts: string[];
  /** PEM: the certificate, then its chain. */
  certificate: string;
  /** PEM. A secret: it must not appear in a log, an error or a status, nor on the server's disk. */
  key: string;
}

/** A deployment with what must not be in its spec. */
export interface CertifiedDeployment {
  /** A DeploySpec. */
  spec: unknown;
  certificates?: HostCertificate[];
  files?: DeliveredFile[];
}
