import {
  defineFlags,
  type FlagSpec,
  LOGGING_FLAGS,
  type LoggingChoice,
  loggingChoice,
  parseFlags,
  type ProgramInfo,
  servingFlags,
} from "../../lib/flags/mod.ts";
import {
  ANNOUNCE_PORT,
  COILD_SERVICE_ACCOUNT,
  EGRESS_ADDRESSES,
  EGRESS_DRAIN_TIMEOUT_MS,
  FOU_PORT,
  SYSTEM_NAMESPACE,
} from "../../lib/names/mod.ts";

/** Stands for a share of what the kernel has. */
const SHARE = -1;

const SERVING = servingFlags(EGRESS_ADDRESSES);

/** Names and defaults are upstream's where it has them. */
const FLAGS = defineFlags({
  "fou-port": {
    type: "int",
    default: FOU_PORT,
    min: 1,
    max: 65_535,
    help: "UDP port of the tunnels; coild's --egress-port",
  },
  "enable-sport-auto": {
    type: "bool",
    help:
      "Derive the tunnel's source port from the inner flow; otherwise it is --fou-port",
  },
  "backend": {
    type: "enum",
    default: "nftables",
    values: ["iptables", "nftables"],
    help:
      "Packet filter; iptables is accepted for existing manifests and means nftables",
  },
  "max-flows-per-client": {
    type: "int",
    default: SHARE,
    min: SHARE,
    max: 0x7fff_ffff,
    help:
      "Maximum number of connections per client address; 0 for no limit, -1 for a quarter of the node's nf_conntrack_max, with 16128 to one address",
  },
  "metrics-addr": SERVING["metrics-addr"],
  "health-addr": SERVING["health-addr"],
  "announce-addr": {
    type: "string",
    default: `:${ANNOUNCE_PORT}`,
    help:
      "Listen address for coild's announcements of new clients; 0 disables them",
  },
  "announce-user": {
    type: "string",
    default:
      `system:serviceaccount:${SYSTEM_NAMESPACE}:${COILD_SERVICE_ACCOUNT}`,
    help: "User that may announce clients: coild's service account",
  },
  "lease-namespace": {
    type: "string",
    default: SYSTEM_NAMESPACE,
    help:
      "Namespace of coil-controller's Lease; coil-controller's --lease-namespace",
  },
  "drain-timeout": {
    type: "duration",
    default: EGRESS_DRAIN_TIMEOUT_MS,
    help:
      "How long to serve established flows after the pod is deleted; the pod's grace period must be longer",
  },
  ...LOGGING_FLAGS,
});

/** The flags of coil-egress, for documentation and completion. */
export const EGRESS_FLAGS: FlagSpec = FLAGS;

export interface EgressOptions {
  readonly logging: LoggingChoice;
  readonly fouPort: number;
  readonly sourcePortAuto: boolean;
  readonly backend: "iptables" | "nftables";
  /** Absent: a share of what the kernel has; 0: any number. */
  readonly maxFlowsPerClient?: number;
  readonly metricsAddress: string;
  readonly healthAddress: string;
  readonly announceAddress: string;
  readonly announceUser: string;
  /** Where coil-controller's lease is. */
  readonly leaseNamespace: string;
  readonly drainTimeoutMs: number;
}

/** Reads the command line; prints and exits on `--help` and mistakes. */
export function parseEgressFlags(
  args: readonly string[],
  info: ProgramInfo,
): EgressOptions {
  const { values, given } = parseFlags(FLAGS, args, info);
  const maxFlowsPerClient = values["max-flows-per-client"];
  return {
    logging: loggingChoice(values, given),
    fouPort: values["fou-port"],
    sourcePortAuto: values["enable-sport-auto"],
    backend: values["backend"],
    ...(maxFlowsPerClient !== SHARE && { maxFlowsPerClient }),
    metricsAddress: values["metrics-addr"],
    healthAddress: values["health-addr"],
    announceAddress: values["announce-addr"],
    announceUser: values["announce-user"],
    leaseNamespace: values["lease-namespace"],
    drainTimeoutMs: values["drain-timeout"],
  };
}
