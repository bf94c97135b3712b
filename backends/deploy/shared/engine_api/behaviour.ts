/**
 * Where the engines that speak the Docker Engine API differ. Whatever differs is a member here, with its reason;
 * nothing else in this folder knows which engine it speaks to.
 */
export interface EngineBehaviour {
  /** The backend's name. */
  name: string;
  /** What errors call the engine: "the Docker daemon". */
  product: string;
  /**
   * The log driver of svc's containers, by the engine's own default; undefined: the default. `svc logs` needs one
   * that keeps bytes as they were printed.
   */
  logDriver(ofEngine: string): string | undefined;
}
