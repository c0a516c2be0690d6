import type { Egress } from "../../api/mod.ts";
import {
  keepFields,
  type V1EndpointSlice,
  type V1Service,
} from "../../kube/mod.ts";

/** What stays in memory of the objects behind an Egress: what its clients need. */

/**
 * Keeps what clients need of an Egress.
 *
 * Gateways write to its status. Of that only those count here that drain; with
 * the generation of the spec they stand for the object's version: other changes
 * of the status are none to watchers of the cache.
 */
export function transformEgress(egress: Egress): Egress {
  const { apiVersion, kind, metadata, spec } = egress;
  const { generation } = metadata;
  const draining = drainingGateways(egress);
  return {
    apiVersion,
    kind,
    metadata: {
      ...keepFields(metadata, "name", "namespace", "uid"),
      ...(generation !== undefined && {
        resourceVersion: [generation, ...draining].join(" "),
      }),
    },
    spec: {
      destinations: spec.destinations,
      ...keepFields(
        spec,
        "failurePolicy",
        "fouSourcePortAuto",
        "gatewaySelection",
        "lostConnections",
      ),
    },
    ...(draining.length > 0 && {
      status: {
        gateways: draining.map((name) => ({ name, draining: true })),
      },
    }),
  };
}

/** The names of the gateways that said that they end: sooner than their endpoints do. */
export function drainingGateways({ status }: Egress): string[] {
  return (status?.gateways ?? [])
    .flatMap(({ name, draining }) => draining === true ? [name] : []);
}

/** Keeps a Service's addresses. */
export function transformService({ metadata, spec }: V1Service): V1Service {
  return {
    metadata: identityOf(metadata),
    spec: { clusterIPs: clusterIpsOf({ spec }) },
  };
}

/** The cluster addresses of a Service, the primary family's first. */
export function clusterIpsOf(
  { spec }: { readonly spec?: V1Service["spec"] | undefined },
): string[] {
  const { clusterIP, clusterIPs } = spec ?? {};
  return clusterIPs ?? (clusterIP === undefined ? [] : [clusterIP]);
}

/** Label of an EndpointSlice: the Service it belongs to. */
export const SERVICE_NAME_LABEL = "kubernetes.io/service-name";

/** Keeps a slice's Service, and of its endpoints addresses, conditions, who should prefer it, and which pod it is. */
export function transformSlice(slice: V1EndpointSlice): V1EndpointSlice {
  const service = slice.metadata?.labels?.[SERVICE_NAME_LABEL];
  return {
    metadata: {
      ...identityOf(slice.metadata),
      ...(service !== undefined && {
        labels: { [SERVICE_NAME_LABEL]: service },
      }),
    },
    addressType: slice.addressType,
    // The API allows null, the generated type does not say so.
    endpoints: (slice.endpoints ?? []).map((endpoint) => ({
      addresses: endpoint.addresses,
      ...keepFields(endpoint, "conditions", "hints"),
      ...(endpoint.targetRef?.name !== undefined && {
        targetRef: keepFields(endpoint.targetRef, "name", "uid"),
      }),
    })),
  };
}

function identityOf(metadata: V1Service["metadata"]) {
  return keepFields(metadata, "name", "namespace", "uid", "resourceVersion");
}
