import type { ObjectMeta, V1Pod } from "../../kube/mod.ts";
import type { GROUP_VERSION } from "../../names/mod.ts";
import type { Condition } from "../base/condition.ts";

/** Template of an Egress' pods: the metadata that may be set, and a pod's spec. */
export interface EgressPodTemplate {
  /** What is added to the metadata of the pods. */
  readonly metadata?: {
    /** Annotations of the pods. */
    readonly annotations?: Readonly<Record<string, string>>;
    /** Labels of the pods. */
    readonly labels?: Readonly<Record<string, string>>;
  };
  /** Spec of the pods; the container named `egress` is the gateway. */
  readonly spec?: NonNullable<V1Pod["spec"]>;
}

/** PodDisruptionBudget of an Egress' pods: at most one of the two is set. */
export interface EgressDisruptionBudget {
  /** Pods that must stay: a number, or a percentage such as `50%`. */
  readonly minAvailable?: number | string;
  /** Pods that may be missing: a number, or a percentage such as `50%`. */
  readonly maxUnavailable?: number | string;
}

/** How the pods of an Egress are replaced, Kubernetes' DeploymentStrategy of apps/v1. */
export interface EgressStrategy {
  /** All at once, or some at a time. */
  readonly type: "Recreate" | "RollingUpdate";
  /** Only with `RollingUpdate`. */
  readonly rollingUpdate?: {
    /** Pods above the wanted number: a number, or a percentage. */
    readonly maxSurge?: number | string;
    /** Pods below the wanted number: a number, or a percentage. */
    readonly maxUnavailable?: number | string;
  };
}

/** Settings of the affinity of a Service, Kubernetes' SessionAffinityConfig of core/v1. */
export interface EgressAffinityConfig {
  /** Only with the affinity `ClientIP`. */
  readonly clientIP?: {
    /** How long an idle client keeps its pod; 10800 when absent. */
    readonly timeoutSeconds?: number;
  };
}

/**
 * What happens to a client's packets while no gateway is ready: `Closed`
 * refuses them, `Open` lets them take the way they would take without the
 * Egress, with another source address.
 */
export type EgressFailurePolicy = "Closed" | "Open";

/**
 * Who chooses the gateway of a connection: `Service` leaves it to the cluster's
 * Service proxy, `Direct` to the kernel of the client.
 */
export type EgressGatewaySelection = "Service" | "Direct";

/**
 * What becomes of a client's connections through a gateway that is lost: `End`
 * ends them at once, `Keep` leaves that to programs and their timeouts.
 */
export type EgressLostConnections = "End" | "Keep";

/** Which gateways are preferred, as of a Service (core/v1 `trafficDistribution`); `PreferClose` is its older word for the zone. */
export type EgressTrafficDistribution =
  | "PreferSameZone"
  | "PreferSameNode"
  | "PreferClose";

/** Desired state of an {@linkcode Egress}. */
export interface EgressSpec {
  /** CIDRs of either family. */
  readonly destinations: readonly string[];
  /** The API server fills in 1. */
  readonly replicas?: number;
  /** How the Deployment replaces pods. */
  readonly strategy?: EgressStrategy;
  /** What the pods are like, beyond the defaults. */
  readonly template?: EgressPodTemplate;
  /** The API server fills in `ClientIP`. */
  readonly sessionAffinity?: "ClientIP" | "None";
  /** How long the Service sends an idle client to the same pod. */
  readonly sessionAffinityConfig?: EgressAffinityConfig;
  /** Whether the kernel picks the UDP source port by flow. The API server fills in false. */
  readonly fouSourcePortAuto?: boolean;
  /** How many pods an eviction may take; no limit when absent. */
  readonly podDisruptionBudget?: EgressDisruptionBudget;
  /** The API server fills in `Closed`. */
  readonly failurePolicy?: EgressFailurePolicy;
  /** The API server fills in `Service`. */
  readonly gatewaySelection?: EgressGatewaySelection;
  /** The API server fills in `End`. */
  readonly lostConnections?: EgressLostConnections;
  /** Absent: none are preferred. */
  readonly trafficDistribution?: EgressTrafficDistribution;
  /** The most connections that each address of a client may have at one gateway; 0 for any number. Absent: a share of the gateway's. */
  readonly maxFlowsPerClient?: number;
}

/** A gateway that nodes have lost, as they said to another one. */
export interface EgressLoss {
  /** The gateway's. */
  readonly address: string;
  /** How many nodes get no answer of it; 0 once it answers all again. */
  readonly nodes: number;
  /** Some of them. */
  readonly nodeNames?: readonly string[];
  /** RFC 3339 time at which the first of them lost it. */
  readonly since: string;
  /** Connections through it that these nodes have ended. */
  readonly endedConnections: number;
}

/** A gateway that works, and to or from which many packets of nodes are lost, as they said to another one. */
export interface EgressSuspect {
  /** The gateway's. */
  readonly address: string;
  /** How many nodes say so. */
  readonly nodes: number;
  /** Some of them. */
  readonly nodeNames: readonly string[];
}

/** With which other source the packets of a gateway leave its node, as coild there found. */
export interface EgressTranslation {
  /** The gateway's. */
  readonly address: string;
  /** The source that they leave with. */
  readonly seenAs: string;
  /** Where one of them went. */
  readonly destination: string;
}

/** Report of one pod of an {@linkcode Egress}. */
export interface EgressGatewayStatus {
  /** Name of the pod. */
  readonly name: string;
  /** Addresses of the pod, which clients' packets leave from. */
  readonly addresses?: readonly string[];
  /** Name of its node. */
  readonly node?: string;
  /** RFC 3339 time at which it started. */
  readonly since?: string;
  /** How full its table of connections is, from 0 to 100; only while it is short of them. */
  readonly conntrackPercent?: number;
  /** How many of the source ports towards one destination are taken, of the worst destination, from 0 to 100; only while it is short of them. */
  readonly snatPortsPercent?: number;
  /** That destination, with its port if the protocol has ports: `203.0.113.9:443`; only while source ports are short. */
  readonly snatPortsDestination?: string;
  /** The client with the most connections to that destination, `namespace/name`; only while source ports are short. */
  readonly snatPortsClient?: string;
  /** The client with the most connections, `namespace/name`; only while connections are short. */
  readonly largestClient?: string;
  /** Clients, `namespace/name`, to which connections were refused within the last minutes: they had reached their limit. */
  readonly limitedClients?: readonly string[];
  /** True where clients should be limited and the kernel cannot do it. */
  readonly unlimited?: boolean;
  /** Whether it ends as soon as its flows have ended. */
  readonly draining?: boolean;
  /** How many nodes have probed it within the last minute: those with clients that choose their gateways. */
  readonly probingNodes?: number;
  /** Other gateways that nodes have lost, and those that answer again, for an hour. */
  readonly losses?: readonly EgressLoss[];
  /** Other gateways of which nodes lose many packets now. */
  readonly suspects?: readonly EgressSuspect[];
  /** How its node translates its source addresses; absent where that was not seen within the last ten minutes. */
  readonly translated?: readonly EgressTranslation[];
  /** RFC 3339 time of this report. */
  readonly updatedAt?: string;
}

/** Observed state of an {@linkcode Egress}. */
export interface EgressStatus {
  /** `metadata.generation` of the spec that the controller acted on last. */
  readonly observedGeneration?: number;
  /** Pods there are. */
  readonly replicas?: number;
  /** Pods that are ready, for as long as the Deployment wants. */
  readonly availableReplicas?: number;
  /** Serialized label selector of the pods. */
  readonly selector?: string;
  /** Pods that use the Egress. */
  readonly clients?: number;
  /** One of each type. */
  readonly conditions?: readonly Condition[];
  /** Names of gateways that nodes have lost while they get answers from others; absent without any. */
  readonly lostGateways?: readonly string[];
  /** Addresses of the gateways, each once. */
  readonly sources?: readonly string[];
  /** Written by the pods themselves, each its own entry; keyed by `name`. */
  readonly gateways?: readonly EgressGatewayStatus[];
}

/** A gateway to outside networks, namespaced. */
export interface Egress {
  readonly apiVersion: typeof GROUP_VERSION;
  /** The kind of the object. */
  readonly kind: "Egress";
  /** Name, labels, finalizers and the like. */
  readonly metadata: ObjectMeta;
  /** What the user wants. */
  readonly spec: EgressSpec;
  /** What the controller sees; absent until it has looked. */
  readonly status?: EgressStatus;
}
