import {
  defineFlags,
  type FlagSpec,
  ignoredFlags,
  LOGGING_FLAGS,
  type LoggingChoice,
  loggingChoice,
  parseFlags,
  type ProgramInfo,
} from "../../lib/flags/mod.ts";
import {
  COILD_ADDRESSES,
  COILD_PROTOCOL,
  COILD_SOCKET,
  EXPORT_TABLE,
  FOU_PORT,
  POD_RULE_PRIORITY,
  POD_TABLE,
} from "../../lib/names/mod.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;

/** Table 0 is "unspec"; upstream's manifests have it where there is no address management. */
function table(fallback: number, help: string) {
  return {
    type: "int",
    default: fallback,
    min: 0,
    max: 2 ** 32 - 1,
    help,
  } as const;
}

/** Names and defaults are upstream's where it has them. */
const FLAGS = defineFlags({
  "metrics-addr": {
    type: "string",
    default: COILD_ADDRESSES.metrics,
    help: "Address to serve metrics at; 0 for none",
  },
  "metrics-auth": {
    type: "bool",
    default: false,
    help:
      "Serve metrics only for a bearer token whose user may get the URL /metrics, as the API server says (TokenReview, SubjectAccessReview)",
  },
  "health-addr": {
    type: "string",
    default: COILD_ADDRESSES.health,
    help: "Address to serve /healthz and /readyz at; 0 for none",
  },
  "socket": {
    type: "string",
    default: COILD_SOCKET,
    help: "UNIX socket to serve the CNI plugin at",
  },
  "pod-table-id": table(POD_TABLE, "Route table for the pods of this node"),
  "pod-rule-prio": {
    type: "int",
    default: POD_RULE_PRIORITY,
    min: 1,
    max: 32_765,
    help: "Priority of the rule that looks up the pod table",
  },
  "export-table-id": table(
    EXPORT_TABLE,
    "Route table that routing daemons import this node's blocks from",
  ),
  "protocol-id": {
    type: "int",
    default: COILD_PROTOCOL,
    min: 0,
    max: 255,
    help: "Protocol number of the routes that coild makes",
  },
  "compat-calico": {
    type: "bool",
    default: false,
    help: "Name host interfaces as Calico's policy engine expects them",
  },
  "egress-port": {
    type: "int",
    default: FOU_PORT,
    min: 1,
    max: 65_535,
    help:
      "UDP port of the tunnels to egress gateways; theirs has to be the same",
  },
  "register-from-main": {
    type: "bool",
    default: false,
    help:
      "Also accept pod routes in the main table at start, for the upgrade from Coil 2.0.1",
  },
  "enable-ipam": {
    type: "bool",
    default: true,
    help:
      "Manage addresses and connect pods; without it, coil comes after the plugin that does, for egress alone",
  },
  "enable-egress": {
    type: "bool",
    default: true,
    help:
      "Make clients of egress gateways of pods that ask for it; false ignores what they ask for",
  },
  "addressblock-gc-interval": {
    type: "duration",
    default: 5 * MINUTE_MS,
    min: SECOND_MS,
    help:
      "How often to compare the kernel, the addresses and the blocks, and to look at egress clients",
  },
  "backend": {
    type: "enum",
    default: "nftables",
    values: ["iptables", "nftables"],
    help:
      "Packet filter; it is nftables whatever is given, without any program",
  },
  "enable-originating-only": {
    type: "bool",
    default: false,
    help:
      "Let answers of egress clients to connections from outside leave by the way they came, past the tunnels",
  },
  "clear-routes-on-shutdown": {
    type: "bool",
    default: false,
    help: "Empty the export table at the end if the Node object is gone",
  },
  "pod-gateway": {
    type: "enum",
    default: "link-local",
    values: ["link-local", "node-address"],
    help:
      "What pods have as gateway: 169.254.1.1 on every host interface, or the node's own address, as upstream does",
  },
  "low-water": {
    type: "int",
    default: -1,
    min: -1,
    max: 1 << 16,
    help:
      "Ask for the next block of a pool when fewer of its addresses than this are free; 0 never asks ahead; -1 is a quarter of a block, at most 16",
  },
  "cooldown": {
    type: "duration",
    default: 30 * SECOND_MS,
    help: "How long a released address rests when others are free",
  },
  "block-return-delay": {
    type: "duration",
    default: 30 * SECOND_MS,
    help:
      "How long a block must have been empty before it goes back to its pool, if the node has room without it",
  },
  "block-request-timeout": {
    type: "duration",
    default: 10 * SECOND_MS,
    min: SECOND_MS / 10,
    help: "How long an ADD waits for a new block",
  },
  "egress-announce-token": {
    type: "string",
    default: "",
    help: "Of earlier versions: file with the token for gateways",
    deprecated: "coild asks the API server for a token for each Egress",
  },
  "egress-announce-timeout": {
    type: "duration",
    default: SECOND_MS,
    min: SECOND_MS / 100,
    help: "How long an ADD waits for gateways to take note of a new client",
  },
  "egress-event-delay": {
    type: "duration",
    default: 10 * SECOND_MS,
    min: 0,
    help:
      "How long something about the egress of a pod that runs lasts, or is over, before an Event tells of it; up to as long again is added by chance",
  },
  ...LOGGING_FLAGS,
});

/** The flags of coild, for documentation and completion. */
export const COILD_FLAGS: FlagSpec = FLAGS;

/** What coild is told on its command line. */
export interface CoildOptions {
  readonly logging: LoggingChoice;
  readonly metricsAddress: string;
  readonly metricsAuth: boolean;
  readonly healthAddress: string;
  readonly socketPath: string;
  readonly podTableId: number;
  readonly podRulePriority: number;
  readonly exportTableId: number;
  readonly protocolId: number;
  readonly compatCalico: boolean;
  readonly registerFromMain: boolean;
  readonly enableIpam: boolean;
  readonly enableEgress: boolean;
  readonly egressPort: number;
  readonly originatingOnly: boolean;
  readonly announceTimeoutMs: number;
  readonly egressEventDelayMs: number;
  readonly reconcileIntervalMs: number;
  readonly clearRoutesOnShutdown: boolean;
  readonly gatewayMode: "link-local" | "node-address";
  readonly lowWater: number;
  readonly cooldownMs: number;
  readonly blockReturnDelayMs: number;
  readonly blockRequestTimeoutMs: number;
  /** Flags that were given and have no effect, with the reason. */
  readonly ignored: Readonly<Record<string, string>>;
}

/** Reads the command line; prints and exits on `--help` and mistakes. */
export function parseCoildFlags(
  args: readonly string[],
  info: ProgramInfo,
): CoildOptions {
  const { values, given } = parseFlags(FLAGS, args, info);
  return {
    logging: loggingChoice(values, given),
    metricsAddress: values["metrics-addr"],
    metricsAuth: values["metrics-auth"],
    healthAddress: values["health-addr"],
    socketPath: values["socket"],
    podTableId: values["pod-table-id"],
    podRulePriority: values["pod-rule-prio"],
    exportTableId: values["export-table-id"],
    protocolId: values["protocol-id"],
    compatCalico: values["compat-calico"],
    registerFromMain: values["register-from-main"],
    enableIpam: values["enable-ipam"],
    enableEgress: values["enable-egress"],
    egressPort: values["egress-port"],
    originatingOnly: values["enable-originating-only"],
    announceTimeoutMs: values["egress-announce-timeout"],
    egressEventDelayMs: values["egress-event-delay"],
    reconcileIntervalMs: values["addressblock-gc-interval"],
    clearRoutesOnShutdown: values["clear-routes-on-shutdown"],
    gatewayMode: values["pod-gateway"],
    lowWater: values["low-water"],
    cooldownMs: values["cooldown"],
    blockReturnDelayMs: values["block-return-delay"],
    blockRequestTimeoutMs: values["block-request-timeout"],
    ignored: ignoredFlags(FLAGS, given),
  };
}
