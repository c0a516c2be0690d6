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
  IPAM_CONTROLLER_ADDRESSES,
  SYSTEM_NAMESPACE,
} from "../../lib/names/mod.ts";

const HOUR_MS = 3_600_000;

const NO_WEBHOOK = "the API server checks objects itself";

const ignoredText = (value: string) =>
  ({
    type: "string",
    default: value,
    help: "Of upstream's webhook",
    deprecated: NO_WEBHOOK,
  }) as const;

const ignoredBool = {
  type: "bool",
  default: false,
  help: "Of upstream's webhook",
  deprecated: NO_WEBHOOK,
} as const;

/** Names and defaults are upstream's where it has them. */
const FLAGS = defineFlags({
  "metrics-addr": {
    type: "string",
    default: IPAM_CONTROLLER_ADDRESSES.metrics,
    help: "Address to serve metrics at; 0 for none",
  },
  "health-addr": {
    type: "string",
    default: IPAM_CONTROLLER_ADDRESSES.health,
    help: "Address to serve /healthz and /readyz at; 0 for none",
  },
  "gc-interval": {
    type: "duration",
    default: HOUR_MS,
    min: 1_000,
    help:
      "How often to look for blocks of nodes that no longer exist, beside the watch on nodes",
  },
  "node-grace": {
    type: "duration",
    default: 30_000,
    min: 0,
    help:
      "How long a Node must be gone before its blocks are released; one of the same name within that time keeps them",
  },
  "enable-ipam": {
    type: "bool",
    default: true,
    help: "Manage address pools, blocks and requests",
  },
  "enable-egress": {
    type: "bool",
    default: false,
    help: "Manage egress gateways; not in this release, which refuses true",
  },
  "lease-namespace": {
    type: "string",
    default: SYSTEM_NAMESPACE,
    help: "Namespace of the lease that elects the leader",
  },
  "concurrent-requests": {
    type: "int",
    default: 32,
    min: 1,
    max: 1024,
    help: "How many block requests to serve at once",
  },
  "cert-dir": ignoredText("/certs"),
  "webhook-addr": ignoredText(":9443"),
  "enable-cert-rotation": ignoredBool,
  "enable-restart-on-cert-refresh": ignoredBool,
  ...LOGGING_FLAGS,
});

/** The flags of coil-controller, for documentation and completion. */
export const CONTROLLER_FLAGS: FlagSpec = FLAGS;

/** What coil-controller is told on its command line. */
export interface ControllerOptions {
  readonly logging: LoggingChoice;
  readonly metricsAddress: string;
  readonly healthAddress: string;
  readonly gcIntervalMs: number;
  readonly nodeGraceMs: number;
  readonly enableIpam: boolean;
  readonly enableEgress: boolean;
  readonly leaseNamespace: string;
  readonly concurrentRequests: number;
  /** Flags that were given and have no effect, with the reason. */
  readonly ignored: Readonly<Record<string, string>>;
}

/** Reads the command line; prints and exits on `--help` and mistakes. */
export function parseControllerFlags(
  args: readonly string[],
  info: ProgramInfo,
): ControllerOptions {
  const { values, given } = parseFlags(FLAGS, args, info);
  // Upstream's name for the half that is not here yet presets it.
  const isEgressAlias = info.program === "coil-egress-controller";
  return {
    logging: loggingChoice(values, given),
    metricsAddress: values["metrics-addr"],
    healthAddress: values["health-addr"],
    gcIntervalMs: values["gc-interval"],
    nodeGraceMs: values["node-grace"],
    enableIpam: values["enable-ipam"] && !isEgressAlias,
    enableEgress: values["enable-egress"] || isEgressAlias,
    leaseNamespace: values["lease-namespace"],
    concurrentRequests: values["concurrent-requests"],
    ignored: ignoredOf(given),
  };
}

function ignoredOf(given: ReadonlySet<string>): Record<string, string> {
  const spec: FlagSpec = FLAGS;
  const ignored: Record<string, string> = {};
  for (const name of given) {
    const reason = spec[name]?.deprecated;
    if (reason !== undefined) ignored[`--${name}`] = reason;
  }
  return ignored;
}
