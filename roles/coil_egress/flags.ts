import {
  defineFlags,
  type FlagSpec,
  LOGGING_FLAGS,
  type LoggingChoice,
  loggingChoice,
  parseFlags,
  type ProgramInfo,
} from "../../lib/flags/mod.ts";
import {
  ANNOUNCE_PORT,
  COILD_SERVICE_ACCOUNT,
  EGRESS_ADDRESSES,
  EGRESS_DRAIN_TIMEOUT_MS,
  FOU_PORT,
  SYSTEM_NAMESPACE,
} from "../../lib/names/mod.ts";

/** Says that a client may have a share of what the kernel has. */
const SHARE = -1;

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
    default: false,
    help:
      "Let the source port of the tunnel follow the flow inside; else it is --fou-port",
  },
  "backend": {
    type: "enum",
    default: "nftables",
    values: ["iptables", "nftables"],
    help:
      "Packet filter; iptables is taken for the sake of existing manifests, and nftables is used",
  },
  "max-flows-per-client": {
    type: "int",
    default: SHARE,
    min: SHARE,
    max: 0x7fff_ffff,
    help:
      "Most connections that each address of a client may have at a time; 0 for any number, -1 for a quarter of the node's nf_conntrack_max, and 16128 of them to one address",
  },
  "metrics-addr": {
    type: "string",
    default: EGRESS_ADDRESSES.metrics,
    help: "Address to serve metrics at; 0 for none",
  },
  "health-addr": {
    type: "string",
    default: EGRESS_ADDRESSES.health,
    help: "Address to serve /healthz and /readyz at; 0 for none",
  },
  "announce-addr": {
    type: "string",
    default: `:${ANNOUNCE_PORT}`,
    help:
      "Address at which coild announces new clients ahead of their status; 0 for none",
  },
  "announce-user": {
    type: "string",
    default:
      `system:serviceaccount:${SYSTEM_NAMESPACE}:${COILD_SERVICE_ACCOUNT}`,
    help: "User that may announce clients: coild's service account",
  },
  "drain-timeout": {
    type: "duration",
    default: EGRESS_DRAIN_TIMEOUT_MS,
    help:
      "How long to go on for established flows when the pod is deleted; the pod's grace period must be longer",
  },
  ...LOGGING_FLAGS,
});

/** The flags of coil-egress, for documentation and completion. */
export const EGRESS_FLAGS: FlagSpec = FLAGS;

/** What coil-egress is told on its command line. */
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
    drainTimeoutMs: values["drain-timeout"],
  };
}
