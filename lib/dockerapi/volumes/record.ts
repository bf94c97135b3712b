/** A volume that a client of the Docker API has made. The server makes it with the first container that names it. */
export interface VolumeRecord {
  name: string;
  driver: string;
  driverOpts: Record<string, string>;
  labels: Record<string, string>;
  /** RFC 3339. */
  created: string;
}
