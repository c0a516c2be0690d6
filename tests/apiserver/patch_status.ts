import type { NamespacedName } from "../../lib/names/mod.ts";
import type { ControlPlane } from "../lab/mod.ts";
import type { Coild, CoildLab, Sandbox } from "./coild_lab.ts";

/** Merges a change into the status of the object at the path. */
export async function patchStatus(
  plane: ControlPlane,
  path: string,
  status: object,
): Promise<void> {
  const contentType = "application/merge-patch+json";
  await plane.request("PATCH", `${path}/status`, { status }, { contentType });
}

/** Gives a pod a phase and addresses, as a kubelet reports them. */
export async function patchPodStatus(
  plane: ControlPlane,
  { namespace, name }: NamespacedName,
  { ips, phase = "Running" }: {
    readonly ips: readonly string[];
    readonly phase?: string | undefined;
  },
): Promise<void> {
  await patchStatus(plane, `/api/v1/namespaces/${namespace}/pods/${name}`, {
    phase,
    podIP: ips[0],
    podIPs: ips.map((ip) => ({ ip })),
  });
}

/** Makes a pod with a network, whose addresses the kubelet has reported. */
export async function addReportedPod(
  lab: CoildLab,
  coild: Coild,
  name: string,
): Promise<Sandbox> {
  const pod = await lab.createPod(name);
  const ips = await coild.addresses(pod);
  await patchPodStatus(lab.plane, pod, { ips });
  return pod;
}
