import type { Address, DualStack, Family, Prefix } from "../../inet/mod.ts";

/**
 * What becomes of packets to the destinations of a gateway that is not
 * available: refused, or sent as if there were no Egress.
 */
export type FailurePolicy = "Closed" | "Open";

/** An Egress as one of its clients needs to know it. */
export interface ClientGateway {
  /** `<namespace>/<name>` of the Egress. */
  readonly name: string;
  /** The cluster addresses of its Service; empty while there is none. */
  readonly service: DualStack<Address>;
  /** The networks to reach through it. */
  readonly destinations: readonly Prefix[];
  /** Whether the kernel chooses the UDP source port, by flow; else it is the port itself. */
  readonly sourcePortAuto: boolean;
  /** The addresses of its pods: only these, and the Service's, may send tunnelled packets to the client. */
  readonly senders: readonly Address[];
  /** The UIDs of its pods by their addresses, where they are known. */
  readonly uids?: ReadonlyMap<string, string>;
  /**
   * The addresses of its pods that new connections are spread over by the
   * client itself; absent where the Service chooses.
   */
  readonly direct?: readonly Address[] | undefined;
  /** Those of them, as text, that new connections prefer while they answer. */
  readonly near?: ReadonlySet<string>;
  /** Whether connections through its pods stay when these are lost. */
  readonly keepsLost?: boolean;
  /** The families in which any of its pods can take packets. */
  readonly available: readonly Family[];
  /** What to do with packets of the others. */
  readonly failurePolicy: FailurePolicy;
}

/** All that decides what the network of a client looks like. */
export interface ClientRequest {
  /** The pod's addresses. */
  readonly addresses: DualStack<Address>;
  /** The pod's interface that the tunnels run over. */
  readonly ifname: string;
  /** Its MTU; 0 for what the kernel says. */
  readonly mtu: number;
  /** The UDP port of the tunnels. */
  readonly port: number;
  /** The Egresses whose client the pod is, in any order, each once. None: no client. */
  readonly gateways: readonly ClientGateway[];
  /** Addresses of gateways, as text, that get no new connections while there are others. */
  readonly avoided?: ReadonlySet<string> | undefined;
  /** Those of them that do not answer. */
  readonly lost?: ReadonlySet<string> | undefined;
  /** Whether answers to connections from outside leave by the way they came, past the tunnels. */
  readonly originatingOnly: boolean;
  /** The cluster's own networks; absent: the private ones of RFC 1918 and RFC 4193. */
  readonly clusterPrefixes?: readonly Prefix[];
}

/** A destination that another Egress has too. */
export interface ShadowedDestination {
  /** The Egress that does not get it. */
  readonly gateway: string;
  readonly destination: Prefix;
  /** The Egress that gets it. */
  readonly by: string;
}

/** A destination that cannot be reached through the Egress. */
export interface SkippedDestination {
  /** The Egress. */
  readonly gateway: string;
  readonly destination: Prefix;
  /** Which of the two has no address of the destination's family. */
  readonly lacking: "pod" | "service";
  /** Whether packets to it are refused for that; else they go as if the Egress did not name it. */
  readonly refused: boolean;
}
