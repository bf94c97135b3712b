/** A network that a client of the Docker API has made. The server makes it with the first container on it. */
export interface NetworkRecord {
  id: string;
  name: string;
  driver: string;
  internal: boolean;
  attachable: boolean;
  enableIPv6: boolean;
  options: Record<string, string>;
  labels: Record<string, string>;
  subnet?: string;
  gateway?: string;
  ipRange?: string;
  /** RFC 3339. */
  created: string;
}
