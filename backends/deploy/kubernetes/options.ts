/** SPEC "Kubernetes backend". */
import { absentTable, off } from "../../../lib/config/absent.ts";
import { oneOf } from "../../../lib/config/checks.ts";

export const KUBERNETES = absentTable("Kubernetes backend", "the kubernetes backend", [
  ["SVC_K8S_NAMESPACE", "string", "Namespace deployed into."],
  ["SVC_K8S_NET_DRIVER", "string", "Driver of user networks.", {
    default: "services",
    check: oneOf(["services", "bridge", "ipvlan", "macvlan", "cilium"]),
  }],
  ["SVC_K8S_NET_STRICT", "bool", "Fail where a network cannot be realized.", off],
  ["SVC_K8S_POLICY_CNI", "bool", "NetworkPolicy-based isolation.", off],
  ["SVC_K8S_IMAGE_PULL_POLICY", "string", "Overrides imagePullPolicy."],
  ["SVC_K8S_SIDECAR_IMAGE", "string", "Image of the caretaker sidecar."],
  ["SVC_KNATIVE_STRICT", "bool", "Fail without Knative serving.", off],
  ["SVC_KUBE_QPS", "int", "Cluster client requests a second.", { default: 50 }],
  ["SVC_KUBE_BURST", "int", "Cluster client burst.", { default: 100 }],
]);

/** Of the cluster's ingress. */
export const KUBERNETES_INGRESS = absentTable("Ingress", "the kubernetes backend", [
  ["SVC_INGRESS_CLASS", "string", "Default IngressClassName."],
  ["SVC_INGRESS_TLS_ISSUER", "string", "Default certificate issuer."],
  ["SVC_INGRESS_CONTROLLER", "string", "Ingress controller Service."],
]);
