import {
  APP_COMPONENT_LABEL,
  APP_INSTANCE_LABEL,
  APP_NAME,
  APP_NAME_LABEL,
  type NamespacedName,
} from "../../names/mod.ts";
import type { V1Pod } from "../../kube/mod.ts";

/** Value of the component label of everything that belongs to an Egress. */
export const EGRESS_COMPONENT = "egress";

/** Labels of the objects of all Egresses, by which a gateway is known. */
export const GATEWAY_LABELS: Readonly<Record<string, string>> = {
  [APP_NAME_LABEL]: APP_NAME,
  [APP_COMPONENT_LABEL]: EGRESS_COMPONENT,
};

/** Label selector of the objects of all Egresses: Deployments, pods, Services and their EndpointSlices. */
export const EGRESS_SELECTOR: string = selectorOf(GATEWAY_LABELS);

/** Labels of the objects of the Egress of this name; its pods are selected by them. */
export function egressLabels(name: string): Readonly<Record<string, string>> {
  return {
    [APP_COMPONENT_LABEL]: EGRESS_COMPONENT,
    [APP_INSTANCE_LABEL]: name,
    [APP_NAME_LABEL]: APP_NAME,
  };
}

/** Label selector of the pods of the Egress of this name, as in `status.selector`. */
export function egressSelector(name: string): string {
  return selectorOf(egressLabels(name));
}

function selectorOf(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels).map(([key, value]) => `${key}=${value}`).join();
}

/**
 * Whether a pod is a gateway of an Egress, by its labels. Such a pod is never
 * made a client: it would send by another gateway, or by itself, what it
 * forwards for its own clients.
 */
export function isGatewayPod(pod: V1Pod | undefined): boolean {
  const labels = pod?.metadata?.labels;
  return labels !== undefined &&
    Object.entries(GATEWAY_LABELS).every(([key, value]) =>
      labels[key] === value
    );
}

/** The Egress of a gateway pod, by its labels; undefined of other pods. */
export function gatewayEgress(pod: V1Pod): NamespacedName | undefined {
  const { namespace, labels } = pod.metadata ?? {};
  const name = labels?.[APP_INSTANCE_LABEL];
  return namespace && name && isGatewayPod(pod)
    ? { namespace, name }
    : undefined;
}
