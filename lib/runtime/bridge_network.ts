/** A network of containers on a bridge of this host, as plugins and rules are made for it. */
export interface BridgeNetwork {
  /** Name in leases and rules. */
  name: string;
  /** Interface on the host, at most 15 characters. */
  bridge: string;
  /** "10.4.0.0/24". */
  subnet: string;
  /** "fd00:0:0:1::/64"; absent: the network has no IPv6. */
  subnet6?: string;
  /** The network reaches nothing beyond its bridge, not even the host; the host reaches the network. */
  internal?: boolean;
  /**
   * Nothing on the network opens a connection beyond the bridge, not even to the host; connections from outside
   * come in, and are answered.
   */
  walled?: boolean;
  /** Containers on the bridge cannot reach each other. */
  apart?: boolean;
  /** The container's default route is on another of its networks. */
  secondary?: boolean;
  mtu?: number;
}

/** True for the names of bridges that svc makes, of any server of this host. */
export const isOwnBridge = (name: string): boolean => /^svc(\d+|-\d+-\d+-\d+)$/.test(name);
