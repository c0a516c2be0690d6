/**
 * Coil's parts as the manifests, workloads' controllers and kubelets leave them.
 *
 * @module
 */
import type { ControlPlane } from "../lab/mod.ts";
import { patchStatus } from "./patch_status.ts";

/** The namespace of the parts. */
export const SYSTEM = "kube-system";

/** A pod of the component, as a workload's controller and a kubelet leave it. */
export async function addPart(
  plane: ControlPlane,
  { name, component, node, waiting }: {
    readonly name: string;
    readonly component: string;
    readonly node: string;
    readonly waiting?: string;
  },
): Promise<void> {
  const labels = {
    "app.kubernetes.io/name": "coil",
    "app.kubernetes.io/component": component,
  };
  await plane.apply({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: SYSTEM, name, labels },
    spec: {
      nodeName: node,
      hostNetwork: true,
      containers: [{ name: component, image: "example.com/coil:0.1.0" }],
    },
  });
  const ready = waiting === undefined;
  await patchStatus(plane, `/api/v1/namespaces/${SYSTEM}/pods/${name}`, {
    phase: "Running",
    conditions: [{ type: "Ready", status: ready ? "True" : "False" }],
    containerStatuses: [{
      name: component,
      image: "",
      imageID: "",
      ready,
      restartCount: ready ? 0 : 12,
      state: ready ? { running: {} } : { waiting: { reason: waiting } },
    }],
  });
}

/** The parts as the manifests want them, all of them ready, on these nodes, and who leads. */
export async function addParts(
  plane: ControlPlane,
  nodes: readonly string[],
): Promise<void> {
  for (const part of ["base", "coild", "coil-controller"]) {
    const path = new URL(`../../deploy/${part}`, import.meta.url).pathname;
    await plane.kubectl("apply", "-k", path);
  }
  for (const name of nodes) {
    await plane.apply({ apiVersion: "v1", kind: "Node", metadata: { name } });
    const component = "coild";
    await addPart(plane, { name: `coild-${name}`, component, node: name });
  }
  for (const name of nodes.slice(0, 2)) {
    const controller = "coil-controller";
    const pod = { name: `${controller}-${name}`, component: controller };
    await addPart(plane, { ...pod, node: name });
  }
  const apps = `/apis/apps/v1/namespaces/${SYSTEM}`;
  await patchStatus(plane, `${apps}/daemonsets/coild`, {
    currentNumberScheduled: nodes.length,
    desiredNumberScheduled: nodes.length,
    numberMisscheduled: 0,
    numberReady: nodes.length,
  });
  await patchStatus(plane, `${apps}/deployments/coil-controller`, {
    replicas: 2,
    readyReplicas: 2,
  });
  await renewLease(plane, new Date());
}

/** coil-controller's lease, renewed at a time. */
export async function renewLease(plane: ControlPlane, at: Date): Promise<void> {
  await plane.apply({
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { namespace: SYSTEM, name: "coil-ipam-leader" },
    spec: {
      holderIdentity: "coil-controller-node1",
      leaseDurationSeconds: 15,
      renewTime: at.toISOString().replace("Z", "000Z"),
    },
  });
}
