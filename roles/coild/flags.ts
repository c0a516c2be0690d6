import {
  defineFlags,
  type FlagSpec,
  type FlagValues,
  ignoredFlags,
  LOGGING_FLAGS,
  type LoggingChoice,
  loggingChoice,
  parseFlags,
  type ProgramInfo,
  refuseCommandLine,
  servingFlags,
} from "../../lib/flags/mod.ts";
import type { NodeIpamOptions } from "../../lib/ipam/mod.ts";
import {
  COILD_ADDRESSES,
  COILD_PROTOCOL,
  COILD_SOCKET,
  EXPORT_TABLE,
  FOU_PORT,
  POD_RULE_PRIORITY,
  POD_TABLE,
  VPC_POD_RULE_PRIORITY,
} from "../../lib/names/mod.ts";
import { VPC_FLAGS, vpcMistakeIn, vpcOptionsOf } from "./cloud/flags.ts";
import type { VpcOptions } from "./cloud/options.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;

/** Unless the admin has said how long empty blocks stay. */
const AMPLE_RETURN_DELAY_MS = 4 * 3600 * SECOND_MS;

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
  ...servingFlags(COILD_ADDRESSES),
  "socket": {
    type: "string",
    default: COILD_SOCKET,
    help: "UNIX socket for the CNI plugin",
  },
  "pod-table-id": table(POD_TABLE, "Route table for the pods of this node"),
  "pod-rule-prio": {
    type: "int",
    default: POD_RULE_PRIORITY,
    min: 1,
    max: 32_765,
    help: "Priority of the rule for the pod table",
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
    help: "Protocol number of coild's routes",
  },
  "compat-calico": {
    type: "bool",
    help: "Name host interfaces as Calico's policy engine expects them",
  },
  "egress-port": {
    type: "int",
    default: FOU_PORT,
    min: 1,
    max: 65_535,
    help: "UDP port of the tunnels to egress gateways; must equal theirs",
  },
  "register-from-main": {
    type: "bool",
    help:
      "Also accept pod routes in the main table at start, for the upgrade from Coil 2.0.1",
  },
  "addresses": {
    type: "enum",
    default: "pools",
    values: ["pools", "vpc"],
    help:
      "Source of pod addresses: blocks of AddressPools, or ENIs of the EC2 instance",
  },
  "enable-ipam": {
    type: "bool",
    default: true,
    help:
      "Manage addresses and connect pods; if false, coil only does egress, after the plugin that connects pods",
  },
  "enable-egress": {
    type: "bool",
    default: true,
    help: "Set up egress for pods with egress annotations; false ignores these",
  },
  "enable-namespace-egress": {
    type: "bool",
    default: true,
    help:
      "Apply egress annotations of a namespace to its pods; must equal coil-controller's flag",
  },
  "enable-coordinator": {
    type: "bool",
    help:
      "Serve the CNI plugin coordinator at coordinator.sock beside --socket, with the defaults of SpiderCoordinator",
  },
  "addressblock-gc-interval": {
    type: "duration",
    default: 5 * MINUTE_MS,
    min: SECOND_MS,
    help:
      "How often to compare kernel, addresses and blocks, and to check egress clients",
  },
  "backend": {
    type: "enum",
    default: "nftables",
    values: ["iptables", "nftables"],
    help:
      "Packet filter; all values mean nftables, used without an external program",
  },
  "enable-originating-only": {
    type: "bool",
    help:
      "Send egress clients' replies to connections from outside by the interface they arrived on, not through the tunnels",
  },
  "clear-routes-on-shutdown": {
    type: "bool",
    help: "Empty the export table at shutdown if the Node was deleted",
  },
  "pod-gateway": {
    type: "enum",
    default: "link-local",
    values: ["link-local", "node-address"],
    help:
      "Pods' gateway: 169.254.1.1 on every host interface, or the node's address, as upstream",
  },
  "low-water": {
    type: "int",
    default: -1,
    min: -1,
    max: 1 << 16,
    help:
      "Request a pool's next block when fewer addresses than this are free; 0 never requests in advance; -1 is a quarter of a block, at most 16",
  },
  "cooldown": {
    type: "duration",
    default: 30 * SECOND_MS,
    help: "How long a released address is not reused while others are free",
  },
  "block-return-delay": {
    type: "duration",
    default: 3600 * SECOND_MS,
    help:
      "How long a block must be empty before it returns to its pool, if the node has enough other free addresses: a random time of half to one and a half times this; 30s at most while the pool is low; if not given, 4h while 2,000 blocks of the pool are in use and a third of its blocks is free",
  },
  "block-request-timeout": {
    type: "duration",
    default: 10 * SECOND_MS,
    min: SECOND_MS / 10,
    help: "How long an ADD waits for a new block",
  },
  "egress-announce-token": {
    type: "string",
    help: "Of earlier versions: file with the token for gateways",
    deprecated: "coild requests a token for each Egress from the API server",
  },
  "egress-announce-timeout": {
    type: "duration",
    default: SECOND_MS,
    min: SECOND_MS / 100,
    help:
      "How long an ADD waits for gateways to accept the announcement of a new client",
  },
  "egress-event-delay": {
    type: "duration",
    default: 10 * SECOND_MS,
    min: 0,
    help:
      "How long a change in a running pod's egress must last before an Event is recorded; a random delay of up to the same time is added",
  },
  ...VPC_FLAGS,
  ...LOGGING_FLAGS,
});

/** The flags of coild, for documentation and completion. */
export const COILD_FLAGS: FlagSpec = FLAGS;

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
  /** Never without egress. */
  readonly namespaceEgress: boolean;
  readonly enableCoordinator: boolean;
  readonly egressPort: number;
  readonly originatingOnly: boolean;
  readonly announceTimeoutMs: number;
  readonly egressEventDelayMs: number;
  readonly reconcileIntervalMs: number;
  readonly clearRoutesOnShutdown: boolean;
  readonly gatewayMode: "link-local" | "node-address";
  readonly lowWater: number;
  readonly cooldownMs: number;
  readonly blockReturns: Required<
    Pick<NodeIpamOptions, "returnDelayMs" | "ampleReturnDelayMs">
  >;
  readonly blockRequestTimeoutMs: number;
  /** Undefined where pods have addresses of pools. */
  readonly vpc: VpcOptions | undefined;
  /** Flags that were given and have no effect, with the reason. */
  readonly ignored: Readonly<Record<string, string>>;
}

/** Reads the command line; prints and exits on `--help` and mistakes. */
export function parseCoildFlags(
  args: readonly string[],
  info: ProgramInfo,
): CoildOptions {
  const { values, given } = parseFlags(FLAGS, args, info);
  const isVpc = values["addresses"] === "vpc";
  const mistake = mistakeIn(values) ?? vpcMistakeIn(values, { given, isVpc });
  if (mistake !== undefined) return refuseCommandLine(mistake, info);
  return {
    logging: loggingChoice(values, given),
    metricsAddress: values["metrics-addr"],
    metricsAuth: values["metrics-auth"],
    healthAddress: values["health-addr"],
    socketPath: values["socket"],
    podTableId: values["pod-table-id"],
    podRulePriority: isVpc && !given.has("pod-rule-prio")
      ? VPC_POD_RULE_PRIORITY
      : values["pod-rule-prio"],
    exportTableId: values["export-table-id"],
    protocolId: values["protocol-id"],
    compatCalico: values["compat-calico"],
    registerFromMain: values["register-from-main"],
    enableIpam: values["enable-ipam"],
    enableEgress: values["enable-egress"],
    namespaceEgress: values["enable-egress"] &&
      values["enable-namespace-egress"],
    enableCoordinator: values["enable-coordinator"],
    egressPort: values["egress-port"],
    originatingOnly: values["enable-originating-only"],
    announceTimeoutMs: values["egress-announce-timeout"],
    egressEventDelayMs: values["egress-event-delay"],
    reconcileIntervalMs: values["addressblock-gc-interval"],
    clearRoutesOnShutdown: values["clear-routes-on-shutdown"],
    gatewayMode: values["pod-gateway"],
    lowWater: values["low-water"],
    cooldownMs: values["cooldown"],
    blockReturns: {
      returnDelayMs: values["block-return-delay"],
      ampleReturnDelayMs: given.has("block-return-delay")
        ? values["block-return-delay"]
        : AMPLE_RETURN_DELAY_MS,
    },
    blockRequestTimeoutMs: values["block-request-timeout"],
    vpc: isVpc ? vpcOptionsOf(values) : undefined,
    ignored: ignoredFlags(FLAGS, given),
  };
}

/** Flags that exclude each other. */
function mistakeIn(values: FlagValues<typeof FLAGS>): string | undefined {
  if (!values["enable-ipam"]) {
    if (values["addresses"] === "vpc") {
      return "--addresses=vpc needs --enable-ipam";
    }
    return values["enable-egress"] || values["enable-coordinator"]
      ? undefined
      : "--enable-ipam, --enable-egress and --enable-coordinator are all false, so there is nothing to do";
  }
  return values["pod-table-id"] === 0 || values["export-table-id"] === 0
    ? "route table 0 does not exist; --pod-table-id and --export-table-id may be 0 with --enable-ipam=false only"
    : undefined;
}
