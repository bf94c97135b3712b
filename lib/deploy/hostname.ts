/** The host name of an instance whose spec gives none: the deployment's and the replica's, in the 63 bytes of a name. */
export function instanceHostname(deployment: string, replica: number): string {
  const end = `-${replica}`;
  return `${deployment.slice(0, 63 - end.length)}${end}`;
}
