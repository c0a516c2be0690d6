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
  servingFlags,
} from "../../lib/flags/mod.ts";
import {
  clusterNameMistake,
  EGRESS_CONTROLLER_ADDRESSES,
  EGRESS_DRAIN_TIMEOUT_MS,
  FOU_PORT,
  IPAM_CONTROLLER_ADDRESSES,
  SYSTEM_NAMESPACE,
} from "../../lib/names/mod.ts";

const HOUR_MS = 3_600_000;

const NO_WEBHOOK = "the API server validates objects without a webhook";

const ignoredText = (value: string) =>
  ({
    type: "string",
    default: value,
    help: "Of upstream's webhook",
    deprecated: NO_WEBHOOK,
  }) as const;

const ignoredBool = {
  type: "bool",
  help: "Of upstream's webhook",
  deprecated: NO_WEBHOOK,
} as const;

/** Names and defaults are upstream's where it has them. */
const FLAGS = defineFlags({
  ...servingFlags(IPAM_CONTROLLER_ADDRESSES),
  "gc-interval": {
    type: "duration",
    default: HOUR_MS,
    min: 1_000,
    help:
      "How often to look for blocks of deleted nodes, in addition to the watch on nodes",
  },
  "node-grace": {
    type: "duration",
    default: 30_000,
    min: 0,
    help:
      "How long after the deletion of a Node its blocks are released; a Node of the same name within that time keeps them",
  },
  "enable-ipam": {
    type: "bool",
    default: true,
    help: "Manage address pools, blocks and requests",
  },
  "enable-egress": {
    type: "bool",
    default: true,
    help: "Manage egress gateways",
  },
  "enable-namespace-egress": {
    type: "bool",
    default: true,
    help:
      "Apply egress annotations of a namespace to its pods; must equal coild's flag",
  },
  "enable-coordinator": {
    type: "bool",
    help:
      "Fill the status of SpiderCoordinator with the cluster's pod and Service CIDRs",
  },
  "vpc-sweep-cluster": {
    type: "string",
    help:
      "Delete ENIs that coild tagged with this cluster name (--cluster-name) and that have been detached for 5 min",
    check: (text) => text === "" ? undefined : clusterNameMistake(text),
  },
  "lease-namespace": {
    type: "string",
    default: SYSTEM_NAMESPACE,
    help: "Namespace of the leases that elect the leaders",
  },
  "concurrent-requests": {
    type: "int",
    default: 32,
    min: 1,
    max: 1024,
    help: "Maximum number of block requests processed in parallel",
  },
  "node-address-factor": {
    type: "int",
    default: 2,
    min: 0,
    max: 1000,
    help:
      "Addresses of a pool that a node may hold per allowed pod, in blocks, plus 4 blocks; 0 for no limit",
  },
  "max-pods-per-node": {
    type: "int",
    default: 1000,
    min: 110,
    max: 1_000_000,
    help:
      "Upper bound for a Node's pod capacity when its block limit is computed; at least the largest maxPods of a kubelet",
  },
  "egress-port": {
    type: "int",
    default: FOU_PORT,
    min: 1,
    max: 65535,
    help: "UDP port of the tunnels to gateways; must equal coild's flag",
  },
  "egress-image": {
    type: "string",
    help:
      "Image for gateways whose template has none; default: the controller's own",
  },
  "drain-timeout": {
    type: "duration",
    default: EGRESS_DRAIN_TIMEOUT_MS,
    min: 0,
    help:
      "How long a deleted gateway keeps serving its flows; its pod gets 30 s more",
  },
  "backend": {
    type: "enum",
    default: "nftables",
    values: ["iptables", "nftables"],
    help: "Passed to gateways; all values mean nftables",
  },
  "cert-dir": ignoredText("/certs"),
  "webhook-addr": ignoredText(":9443"),
  "enable-cert-rotation": ignoredBool,
  "enable-restart-on-cert-refresh": ignoredBool,
  ...LOGGING_FLAGS,
});

/** The flags of coil-controller, for documentation and completion. */
export const CONTROLLER_FLAGS: FlagSpec = FLAGS;

/** Upstream's two controllers are this one with other defaults. */
const PRESETS: Readonly<Record<string, Partial<FlagValues<typeof FLAGS>>>> = {
  "coil-ipam-controller": { "enable-egress": false },
  "coil-egress-controller": {
    "enable-ipam": false,
    "metrics-addr": EGRESS_CONTROLLER_ADDRESSES.metrics,
    "health-addr": EGRESS_CONTROLLER_ADDRESSES.health,
  },
};

export interface ControllerOptions {
  readonly logging: LoggingChoice;
  readonly metricsAddress: string;
  readonly metricsAuth: boolean;
  readonly healthAddress: string;
  readonly gcIntervalMs: number;
  readonly nodeGraceMs: number;
  readonly enableIpam: boolean;
  readonly enableEgress: boolean;
  /** Never without egress. */
  readonly namespaceEgress: boolean;
  readonly enableCoordinator: boolean;
  /** Empty when no ENIs are to be deleted. */
  readonly vpcSweepCluster: string;
  readonly leaseNamespace: string;
  readonly concurrentRequests: number;
  readonly nodeAddressFactor: number;
  readonly maxPodsPerNode: number;
  readonly egressPort: number;
  /** Empty when the controller's own is to be used. */
  readonly egressImage: string;
  readonly drainTimeoutMs: number;
  readonly backend: "iptables" | "nftables";
  /** Flags that were given and have no effect, with the reason. */
  readonly ignored: Readonly<Record<string, string>>;
}

/** Reads the command line; prints and exits on `--help` and mistakes. */
export function parseControllerFlags(
  args: readonly string[],
  info: ProgramInfo,
): ControllerOptions {
  const { values, given } = parseFlags(FLAGS, args, info);
  const preset = PRESETS[info.program] ?? {};
  const ownOf = <F extends keyof typeof values>(flag: F) =>
    given.has(flag) ? values[flag] : preset[flag] ?? values[flag];
  return {
    logging: loggingChoice(values, given),
    metricsAddress: ownOf("metrics-addr"),
    metricsAuth: values["metrics-auth"],
    healthAddress: ownOf("health-addr"),
    gcIntervalMs: values["gc-interval"],
    nodeGraceMs: values["node-grace"],
    enableIpam: ownOf("enable-ipam"),
    enableEgress: ownOf("enable-egress"),
    namespaceEgress: ownOf("enable-egress") &&
      values["enable-namespace-egress"],
    enableCoordinator: values["enable-coordinator"],
    vpcSweepCluster: values["vpc-sweep-cluster"],
    leaseNamespace: values["lease-namespace"],
    concurrentRequests: values["concurrent-requests"],
    nodeAddressFactor: values["node-address-factor"],
    maxPodsPerNode: values["max-pods-per-node"],
    egressPort: values["egress-port"],
    egressImage: values["egress-image"],
    drainTimeoutMs: values["drain-timeout"],
    backend: values["backend"],
    ignored: ignoredFlags(FLAGS, given),
  };
}
