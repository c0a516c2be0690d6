import { type NamespacedName, nameText } from "./namespaced_name.ts";

/** Environment variable: name of the node that a daemon runs on. */
export const NODE_NAME_ENV = "COIL_NODE_NAME";

/** Environment variable: namespace of the pod that a daemon runs in. */
export const POD_NAMESPACE_ENV = "COIL_POD_NAMESPACE";

/** Environment variable: name of the pod that a daemon runs in. */
export const POD_NAME_ENV = "COIL_POD_NAME";

/** Environment variable: name of the container that a daemon runs in, when it is not the daemon's. */
export const CONTAINER_NAME_ENV = "COIL_CONTAINER_NAME";

/** Environment variable: addresses of an egress pod, separated by commas. */
export const POD_ADDRESSES_ENV = "COIL_POD_ADDRESSES";

/** Environment variable: name of the Egress that an egress pod serves. */
export const EGRESS_NAME_ENV = "COIL_EGRESS_NAME";

/** Unix socket on which coild serves the CNI plugin. */
export const COILD_SOCKET = "/run/coild.sock";

/** The socket of coild beside which the plugin `coordinator` has its files, unless its configuration names another one. */
export const COORDINATOR_COILD_SOCKET = "/run/coil/coild.sock";

/** Where calls of the plugin `coordinator` find coild and its defaults. */
export interface CoordinatorPlaces {
  /** The socket, without the suffix for callers of the plugin. */
  readonly socketPath: string;
  /** The file with the defaults in force, for calls that coild does not answer. */
  readonly defaultsPath: string;
}

/** Places of the coordinator beside a socket of coild. */
export function coordinatorPlaces(coildSocket: string): CoordinatorPlaces {
  const directory = coildSocket.slice(0, coildSocket.lastIndexOf("/"));
  return {
    socketPath: `${directory}/coordinator.sock`,
    defaultsPath: `${directory}/coordinator.json`,
  };
}

/** Default addresses of the metrics and health servers of one daemon. */
export interface ServerAddresses {
  /** Address of the metrics server, `host:port` as in Go. */
  readonly metrics: string;
  /** Address of the server of `/healthz` and `/readyz`, likewise. */
  readonly health: string;
}

// Health is for the kubelet alone. Pods of the node's network are asked at the node's loopback address (`host` of a
// probe), which no other pod reaches.

/** Default server addresses of coild. */
export const COILD_ADDRESSES: ServerAddresses = {
  metrics: ":9384",
  health: "127.0.0.1:9385",
};

/** Where coild with addresses of the VPC shows them to programs on the node: as upstream's agent. */
export const VPC_INTROSPECTION_ADDRESS = "127.0.0.1:61679";

/** Default server addresses of coil-controller, and of upstream's coil-ipam-controller. */
export const IPAM_CONTROLLER_ADDRESSES: ServerAddresses = {
  metrics: ":9386",
  health: "127.0.0.1:9387",
};

/** Default server addresses of coil-router. */
export const ROUTER_ADDRESSES: ServerAddresses = {
  metrics: ":9388",
  health: "127.0.0.1:9389",
};

/** Default server addresses of upstream's coil-egress-controller. */
export const EGRESS_CONTROLLER_ADDRESSES: ServerAddresses = {
  metrics: ":9396",
  health: "127.0.0.1:9397",
};

/** Default server addresses of coil-egress: in a network of its own the kubelet reaches the pod's address alone. */
export const EGRESS_ADDRESSES: ServerAddresses = {
  metrics: ":8080",
  health: ":8081",
};

/** How long a gateway whose pod is deleted serves the flows it has, unless configured otherwise. */
export const EGRESS_DRAIN_TIMEOUT_MS = 300_000;

/** TCP port of egress gateways to which coild announces new clients. */
export const ANNOUNCE_PORT = 8082;

/**
 * Audience of the tokens that coild sends with announcements to the gateways
 * of one Egress. Every Egress has its own: a gateway of another one, and every
 * other server, refuses the token.
 */
export function announceAudience(egress: NamespacedName): string {
  return `coil-egress/${nameText(egress)}`;
}

/** Service account of coild, in the namespace of Coil's daemons. */
export const COILD_SERVICE_ACCOUNT = "coild";
