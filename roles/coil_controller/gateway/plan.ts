import { type Egress, egressLabels } from "../../../lib/api/mod.ts";
import type {
  V1PodDisruptionBudget,
  V1Service,
} from "../../../lib/kube/mod.ts";
import { planMetadata, type PlannedMetadata } from "../base/metadata.ts";

/** The controller's settings for the gateways of every Egress. */
export interface GatewaySettings {
  /** UDP port of the tunnels. */
  readonly port: number;
  /** Passed on to the gateways unchanged. */
  readonly backend: "iptables" | "nftables";
  /** How long a gateway that is being deleted serves the flows it has. */
  readonly drainTimeoutMs: number;
  /** Namespace of Coil's daemons. */
  readonly systemNamespace: string;
  /** Namespace of the controller's leases. */
  readonly leaseNamespace: string;
}

/** Planned fields of a Service; the rest is the API server's. */
export interface ServicePlan {
  readonly metadata: PlannedMetadata;
  readonly spec: NonNullable<V1Service["spec"]>;
}

/** Planned fields of a PodDisruptionBudget. */
export interface DisruptionBudgetPlan {
  readonly metadata: PlannedMetadata;
  readonly spec: NonNullable<V1PodDisruptionBudget["spec"]>;
}

/** Plans the Service through which clients reach the gateways of an Egress. */
export function planService(
  egress: Egress,
  { port }: Pick<GatewaySettings, "port">,
): ServicePlan {
  const {
    sessionAffinity = "ClientIP",
    sessionAffinityConfig,
    trafficDistribution,
  } = egress.spec;
  // Without affinity there is nothing to configure; a Service refuses it.
  const timeoutSeconds = sessionAffinity === "ClientIP"
    ? sessionAffinityConfig?.clientIP?.timeoutSeconds
    : undefined;
  return {
    metadata: planMetadata(egress),
    spec: {
      type: "ClusterIP",
      ipFamilyPolicy: "PreferDualStack",
      selector: { ...egressLabels(egress.metadata.name ?? "") },
      ports: [{ port, targetPort: port, protocol: "UDP" }],
      sessionAffinity,
      ...(timeoutSeconds === undefined
        ? {}
        : { sessionAffinityConfig: { clientIP: { timeoutSeconds } } }),
      ...(trafficDistribution !== undefined && { trafficDistribution }),
    },
  };
}

/** Plans the PodDisruptionBudget of an Egress' pods; undefined when it wants none. */
export function planDisruptionBudget(
  egress: Egress,
): DisruptionBudgetPlan | undefined {
  const budget = egress.spec.podDisruptionBudget;
  if (budget === undefined) return undefined;
  const { minAvailable, maxUnavailable } = budget;
  return {
    metadata: planMetadata(egress),
    spec: {
      ...(minAvailable === undefined ? {} : { minAvailable }),
      ...(maxUnavailable === undefined ? {} : { maxUnavailable }),
      selector: {
        matchLabels: { ...egressLabels(egress.metadata.name ?? "") },
      },
    },
  };
}
