import { PROBE_PORT } from "../../../lib/connectivity/mod.ts";
import type {
  V1Pod,
  V1Service,
  V1ServiceAccount,
} from "../../../lib/kube/mod.ts";
import {
  EGRESS_ANNOTATION_PREFIX,
  type NamespacedName,
} from "../../../lib/names/mod.ts";
import { type PodKind, SERVICE_PORT } from "./plan.ts";

export const CONTAINER = "probe";
/** Label with the pod's {@linkcode PodKind}. */
export const KIND_LABEL = "coil.cybozu.com/connectivity-test";

/** Input for the probe pods. */
export interface Making {
  readonly namespace: string;
  readonly image: string;
  /** 0 for none. */
  readonly hostPort: number;
  readonly egress: NamespacedName | undefined;
}

const ACCOUNT = "probe";

/** The pods' account: it is there at once, and has no rights. */
export function serviceAccount(namespace: string): V1ServiceAccount {
  return {
    metadata: { name: ACCOUNT, namespace },
    automountServiceAccountToken: false,
  };
}

/** The Service that leads to the probes of all nodes. */
export function service(namespace: string): V1Service {
  return {
    metadata: { name: "probe", namespace },
    spec: {
      selector: { [KIND_LABEL]: "probe" satisfies PodKind },
      ipFamilyPolicy: "PreferDualStack",
      ports: [{ port: SERVICE_PORT, targetPort: PROBE_PORT }],
    },
  };
}

/** The pods: one on each node, one more on the first, and with an Egress another one on each. */
export function pods(nodes: readonly string[], making: Making): V1Pod[] {
  const { hostPort, egress } = making;
  return nodes.flatMap((node, index) => [
    pod("probe", { ...making, node, index }),
    ...index === 0
      ? [pod("host-port", { ...making, node, index }, hostPort)]
      : [],
    ...egress === undefined ? [] : [pod("egress", { ...making, node, index })],
  ]);
}

function pod(
  kind: PodKind,
  { namespace, image, egress, node, index }: Making & {
    readonly node: string;
    readonly index: number;
  },
  hostPort: number = 0,
): V1Pod {
  return {
    metadata: {
      name: `${kind}-${index}`,
      namespace,
      labels: { [KIND_LABEL]: kind },
      annotations: kind === "egress" && egress !== undefined
        ? { [`${EGRESS_ANNOTATION_PREFIX}${egress.namespace}`]: egress.name }
        : {},
    },
    spec: {
      // Also on a node that takes no other pods: its network is tested.
      nodeName: node,
      tolerations: [{ operator: "Exists" }],
      serviceAccountName: ACCOUNT,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 1,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: 65532,
        runAsGroup: 65532,
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [{
        name: CONTAINER,
        image,
        imagePullPolicy: "IfNotPresent",
        command: ["coil", "probe", "serve", `--port=${PROBE_PORT}`],
        ports: [{
          containerPort: PROBE_PORT,
          ...(hostPort === 0 ? {} : { hostPort }),
        }],
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        },
        resources: {
          requests: { cpu: "10m", memory: "64Mi" },
          limits: { memory: "256Mi" },
        },
        volumeMounts: [{ name: "tmp", mountPath: "/tmp" }],
      }],
      // What the runtime of the executable unpacks and caches.
      volumes: [{
        name: "tmp",
        emptyDir: { medium: "Memory", sizeLimit: "64Mi" },
      }],
    },
  };
}
