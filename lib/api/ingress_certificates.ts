/**
 * Certificates that travel with a deployment to a backend whose ingress is the cluster's (SPEC.md
 * "IngressCertificate", "Authentication" 6): an apply with this content type.
 */

/** The body is a {@linkcode CertifiedDeployment} in JSON. */
export const CERTIFIED_TYPE = "application/vnd.svc.certified-deployment+json";

/** Among the abilities of `/info` where a backend takes them. */
export const CERTIFICATES_ABILITY = "ingressCertificates";

/** One certificate, for all the hosts that it was chosen for. */
export interface HostCertificate {
  /** As the spec's `ingress.hosts` has them: lower case, IDN in punycode. */
  hosts: string[];
  /** PEM, the chain behind it. */
  certificate: string;
  /** PEM. A secret: in no log, no error, no status, and on no disk of the server. */
  key: string;
}

export interface CertifiedDeployment {
  /** A DeploySpec. */
  spec: unknown;
  certificates: HostCertificate[];
}
