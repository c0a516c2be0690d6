import type {
  V1DeploymentStrategy,
  V1PodSpec,
  V1SessionAffinityConfig,
} from "@kubernetes/client-node";
import type { GROUP_VERSION } from "../names/mod.ts";
import type { ObjectMeta } from "./meta.ts";

/** Template of an Egress' pods: the metadata that may be set, and a pod's spec. */
export interface EgressPodTemplate {
  readonly metadata?: {
    readonly annotations?: Readonly<Record<string, string>>;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec?: V1PodSpec;
}

/** PodDisruptionBudget of an Egress' pods: at most one of the two is set. */
export interface EgressDisruptionBudget {
  readonly minAvailable?: number | string;
  readonly maxUnavailable?: number | string;
}

/** Desired state of an {@linkcode Egress}. */
export interface EgressSpec {
  /** CIDRs of either family. */
  readonly destinations: readonly string[];
  /** The API server fills in 1. */
  readonly replicas?: number;
  readonly strategy?: V1DeploymentStrategy;
  readonly template?: EgressPodTemplate;
  /** The API server fills in `ClientIP`. */
  readonly sessionAffinity?: "ClientIP" | "None";
  readonly sessionAffinityConfig?: V1SessionAffinityConfig;
  /** Whether the kernel picks the UDP source port by flow. The API server fills in false. */
  readonly fouSourcePortAuto?: boolean;
  readonly podDisruptionBudget?: EgressDisruptionBudget;
}

/** Observed state of an {@linkcode Egress}. */
export interface EgressStatus {
  /** Available replicas of the Deployment. */
  readonly replicas?: number;
  /** Serialized label selector of the pods. */
  readonly selector?: string;
}

/** A gateway to outside networks, namespaced. */
export interface Egress {
  readonly apiVersion: typeof GROUP_VERSION;
  readonly kind: "Egress";
  readonly metadata: ObjectMeta;
  readonly spec: EgressSpec;
  readonly status?: EgressStatus;
}
