import {
  type Egress,
  egressLabels,
  type EgressStrategy,
} from "../../../lib/api/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import {
  EGRESS_CONTAINER,
  EGRESS_SERVICE_ACCOUNT,
} from "../../../lib/names/mod.ts";
import {
  type Container,
  MODULES_VOLUME,
  planContainer,
  RUN_VOLUME,
  SYSCTL_VOLUME,
} from "./container.ts";
import { planMetadata, type PlannedMetadata } from "../base/metadata.ts";
import type { GatewaySettings } from "./plan.ts";
import { gatewayAnnotations, listOf, numberOf } from "./template.ts";

/** Time that a gateway gets beyond its drain time before it is killed: to begin draining, and to end. */
const GRACE_BEYOND_DRAIN_S = 30;

export type PodSpec = NonNullable<V1Pod["spec"]>;

type Spread = NonNullable<PodSpec["topologySpreadConstraints"]>[number];

type Volume = NonNullable<PodSpec["volumes"]>[number];

/** What the API server fills in. */
const DEFAULT_ROLLING_UPDATE: NonNullable<EgressStrategy["rollingUpdate"]> = {
  maxSurge: "25%",
  maxUnavailable: "25%",
};

/** Planned fields of a Deployment; the rest belongs to the API server, or to others that write to it. */
export interface DeploymentPlan {
  readonly metadata: PlannedMetadata;
  readonly spec: {
    readonly replicas: number;
    readonly selector: {
      readonly matchLabels: Readonly<Record<string, string>>;
    };
    readonly strategy: EgressStrategy;
    readonly template: {
      readonly metadata: {
        readonly labels: Readonly<Record<string, string>>;
        readonly annotations?: Readonly<Record<string, string>>;
      };
      readonly spec: PodSpec;
    };
  };
}

/**
 * Plans the Deployment of an Egress' gateways from its template.
 *
 * @throws {InvalidTemplateError} when a list of the template is something else, or an annotation makes clients of the gateways
 */
export function planDeployment(
  egress: Egress,
  { settings, image }: {
    readonly settings: GatewaySettings;
    /** For a container that names none. */
    readonly image: string;
  },
): DeploymentPlan {
  const { replicas = 1, template, strategy } = egress.spec;
  const { labels } = template?.metadata ?? {};
  const annotations = gatewayAnnotations(template?.metadata?.annotations);
  const ours = egressLabels(egress.metadata.name ?? "");
  return {
    metadata: planMetadata(egress),
    spec: {
      replicas,
      selector: { matchLabels: ours },
      strategy: planStrategy(strategy),
      template: {
        metadata: {
          labels: { ...labels, ...ours },
          ...(annotations === undefined ? {} : { annotations }),
        },
        spec: planPodSpec(egress, { settings, image }),
      },
    },
  };
}

/**
 * The defaults are set explicitly, so that they are ours: what the API server filled in
 * would stay when the type changes, and be refused beside the other type.
 */
function planStrategy(
  { type, rollingUpdate }: EgressStrategy = { type: "RollingUpdate" },
): EgressStrategy {
  if (type === "Recreate") return { type };
  return {
    type,
    rollingUpdate: { ...DEFAULT_ROLLING_UPDATE, ...rollingUpdate },
  };
}

function planPodSpec(
  egress: Egress,
  { settings, image }: {
    readonly settings: GatewaySettings;
    readonly image: string;
  },
): PodSpec {
  const wanted: Partial<PodSpec> = egress.spec.template?.spec ?? {};
  const graceSeconds = Math.ceil(settings.drainTimeoutMs / 1000) +
    GRACE_BEYOND_DRAIN_S;
  const { containers = [] } = wanted;
  const isGateway = ({ name }: Container) => name === EGRESS_CONTAINER;
  const gateway = planContainer(egress, {
    wanted: containers.find(isGateway),
    settings,
    image,
  });
  return {
    ...wanted,
    serviceAccountName: EGRESS_SERVICE_ACCOUNT,
    terminationGracePeriodSeconds: Math.max(
      numberOf(
        wanted.terminationGracePeriodSeconds,
        "terminationGracePeriodSeconds",
      ),
      graceSeconds,
    ),
    topologySpreadConstraints: wanted.topologySpreadConstraints ??
      planSpread(egress),
    containers: containers.some(isGateway)
      ? containers.map((c) => isGateway(c) ? gateway : c)
      : [gateway, ...containers],
    volumes: planVolumes(listOf(wanted.volumes, "volumes")),
  };
}

/**
 * Gateways of an Egress go to different nodes and zones where there are such: one failure then ends one of them. As
 * preferences, since a gateway on a shared node is better than none. Source: "Pod Topology Spread Constraints" of Kubernetes.
 */
function planSpread({ metadata }: Egress): Spread[] {
  const matchLabels = egressLabels(metadata.name ?? "");
  return ["kubernetes.io/hostname", "topology.kubernetes.io/zone"].map(
    (topologyKey) => ({
      maxSkew: 1,
      topologyKey,
      whenUnsatisfiable: "ScheduleAnyway",
      labelSelector: { matchLabels },
    }),
  );
}

/** What a gateway needs; a volume of the template of the same name takes its place. */
const VOLUMES: readonly Volume[] = [
  { name: RUN_VOLUME, emptyDir: {} },
  { name: MODULES_VOLUME, hostPath: { path: "/lib/modules" } },
  { name: SYSCTL_VOLUME, hostPath: { path: "/proc/sys/net" } },
];

function planVolumes(wanted: readonly Volume[]): Volume[] {
  const isMissing = ({ name }: Volume) => !wanted.some((v) => v.name === name);
  return [...wanted, ...VOLUMES.filter(isMissing)];
}
