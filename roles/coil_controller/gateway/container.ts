import type { Egress } from "../../../lib/api/mod.ts";
import { formatDuration } from "../../../lib/flags/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import {
  COILD_SERVICE_ACCOUNT,
  EGRESS_ADDRESSES,
  EGRESS_CONTAINER,
  EGRESS_DRAIN_TIMEOUT_MS,
  EGRESS_NAME_ENV,
  NODE_NAME_ENV,
  POD_ADDRESSES_ENV,
  POD_NAME_ENV,
  POD_NAMESPACE_ENV,
  SYSTEM_NAMESPACE,
} from "../../../lib/names/mod.ts";
import type { GatewaySettings } from "./plan.ts";
import { isAtLeast } from "../base/quantity.ts";
import { listOf, textsOf } from "./template.ts";

/** Volume for what a gateway writes; its root is read-only. */
export const RUN_VOLUME = "run";

/** Volume with the kernel modules of the node. */
export const MODULES_VOLUME = "modules";

/** Volume with the sysctls of the pod's network, writable; see `writeSysctl()`. */
export const SYSCTL_VOLUME = "sysctl";

export type Container = NonNullable<V1Pod["spec"]>["containers"][number];

type EnvVar = NonNullable<Container["env"]>[number];
type VolumeMount = NonNullable<Container["volumeMounts"]>[number];
type SecurityContext = NonNullable<Container["securityContext"]>;
type Resources = NonNullable<Container["resources"]>;

const REQUESTS: Readonly<Record<string, string>> = {
  cpu: "100m",
  memory: "200Mi",
};

/** A restart mends only a process: its kernel forwards without it, and a slow one is not worth a restart. */
const LIVENESS = { periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 };

/**
 * A process that does not answer leaves the Service after 2 to 3 s: the first probe begins within one, and two have a
 * second each. The gateway's table keeps pods from delaying them, see `guardProbes()`.
 */
const READINESS = { periodSeconds: 1, timeoutSeconds: 1, failureThreshold: 2 };

const MOUNTS: readonly VolumeMount[] = [
  { name: RUN_VOLUME, mountPath: "/run" },
  { name: MODULES_VOLUME, mountPath: "/lib/modules", readOnly: true },
  { name: SYSCTL_VOLUME, mountPath: "/host/proc/sys/net" },
];

/** Plans the container that is the gateway: the template's, with what it needs. */
export function planContainer(
  egress: Egress,
  { wanted, settings, image }: {
    /** The template's container of the name. */
    readonly wanted: Container | undefined;
    readonly settings: GatewaySettings;
    readonly image: string;
  },
): Container {
  return {
    ...wanted,
    name: EGRESS_CONTAINER,
    image: wanted?.image || image,
    command: orDefault(
      textsOf(wanted?.command, "containers[egress].command"),
      ["coil-egress"],
    ),
    args: orDefault(
      textsOf(wanted?.args, "containers[egress].args"),
      planArgs(egress, settings),
    ),
    env: planEnv(listOf(wanted?.env, "containers[egress].env"), egress),
    volumeMounts: planMounts(
      listOf(wanted?.volumeMounts, "containers[egress].volumeMounts"),
    ),
    securityContext: planSecurity(wanted?.securityContext),
    resources: planResources(wanted?.resources),
    ports: [
      { name: "metrics", containerPort: portOf("metrics"), protocol: "TCP" },
      { name: "health", containerPort: portOf("health"), protocol: "TCP" },
    ],
    livenessProbe: {
      httpGet: { path: "/healthz", port: "health" },
      ...LIVENESS,
    },
    readinessProbe: {
      httpGet: { path: "/readyz", port: "health" },
      ...READINESS,
    },
  };
}

function orDefault(
  wanted: readonly string[],
  otherwise: readonly string[],
): string[] {
  return [...(wanted.length > 0 ? wanted : otherwise)];
}

/** Only flags that upstream's gateways know, unless more is configured: a template may name their image. */
function planArgs(
  { spec }: Egress,
  settings: GatewaySettings,
): string[] {
  const { port, backend, drainTimeoutMs } = settings;
  const { systemNamespace, leaseNamespace } = settings;
  const args = ["--zap-stacktrace-level=panic", `--fou-port=${port}`];
  if (spec.fouSourcePortAuto) args.push("--enable-sport-auto=true");
  args.push(`--backend=${backend}`);
  if (spec.maxFlowsPerClient !== undefined) {
    args.push(`--max-flows-per-client=${spec.maxFlowsPerClient}`);
  }
  if (drainTimeoutMs !== EGRESS_DRAIN_TIMEOUT_MS) {
    args.push(`--drain-timeout=${formatDuration(drainTimeoutMs)}`);
  }
  if (systemNamespace !== SYSTEM_NAMESPACE) {
    const user =
      `system:serviceaccount:${systemNamespace}:${COILD_SERVICE_ACCOUNT}`;
    args.push(`--announce-user=${user}`);
  }
  if (leaseNamespace !== SYSTEM_NAMESPACE) {
    args.push(`--lease-namespace=${leaseNamespace}`);
  }
  return args;
}

/** The template's variables, each once (the last counts, as in a container), and then ours. */
function planEnv(wanted: readonly EnvVar[], { metadata }: Egress): EnvVar[] {
  const ours: readonly EnvVar[] = [
    { name: POD_NAMESPACE_ENV, value: metadata.namespace ?? "" },
    { name: EGRESS_NAME_ENV, value: metadata.name ?? "" },
    fromField(POD_ADDRESSES_ENV, "status.podIPs"),
    // The host name is cut at 63 characters.
    fromField(POD_NAME_ENV, "metadata.name"),
    fromField(NODE_NAME_ENV, "spec.nodeName"),
  ];
  const last = new Map(wanted.map((variable) => [variable.name, variable]));
  for (const { name } of ours) last.delete(name);
  return [...last.values(), ...ours];
}

function fromField(name: string, fieldPath: string): EnvVar {
  return { name, valueFrom: { fieldRef: { fieldPath } } };
}

function planMounts(wanted: readonly VolumeMount[]): VolumeMount[] {
  const missing = MOUNTS.filter(({ name, mountPath }) =>
    !wanted.some((m) => m.name === name || m.mountPath === mountPath)
  );
  return [...wanted, ...missing];
}

/**
 * A gateway changes its own network, and so needs one capability and root, as
 * other users lose theirs when a program starts. It switches forwarding on and
 * reverse-path filters off in a volume, so that it need not be privileged; the
 * template may say that it is, for an image that cannot do that. Modules are
 * loaded on the node before, see deploy/coild.
 */
function planSecurity(wanted: SecurityContext | undefined): SecurityContext {
  const field = "containers[egress].securityContext.capabilities";
  const add = textsOf(wanted?.capabilities?.add, `${field}.add`);
  const drop = textsOf(wanted?.capabilities?.drop, `${field}.drop`);
  const privileged = wanted?.privileged ?? false;
  return {
    runAsUser: 0,
    runAsGroup: 0,
    seccompProfile: { type: "RuntimeDefault" },
    // A privileged container may escalate anyway, and the API server requires the field to say so.
    allowPrivilegeEscalation: privileged,
    ...wanted,
    privileged,
    readOnlyRootFilesystem: true,
    capabilities: {
      ...wanted?.capabilities,
      drop: [...new Set([...drop, "ALL"])],
      add: [...new Set([...add, "NET_ADMIN"])],
    },
  };
}

function planResources(wanted: Resources | undefined): Resources {
  const requests: Record<string, string> = { ...wanted?.requests };
  for (const [resource, amount] of Object.entries(REQUESTS)) {
    if (requests[resource] !== undefined) continue;
    // Without a request of ours the API server takes the limit, which may be far more. A request above it is refused.
    const limit = wanted?.limits?.[resource];
    if (limit === undefined || isAtLeast(limit, amount)) {
      requests[resource] = amount;
    }
  }
  return {
    ...wanted,
    ...(Object.keys(requests).length === 0 ? {} : { requests }),
  };
}

function portOf(server: keyof typeof EGRESS_ADDRESSES): number {
  return Number(EGRESS_ADDRESSES[server].split(":").at(-1));
}
