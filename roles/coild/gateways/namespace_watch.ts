import {
  type Egress,
  EGRESS_SELECTOR,
  EGRESSES,
} from "../../../lib/api/mod.ts";
import {
  ENDPOINT_SLICES,
  Informer,
  type KubeClient,
  SERVICES,
  type V1EndpointSlice,
  type V1Service,
} from "../../../lib/kube/mod.ts";
import {
  SERVICE_NAME_LABEL,
  transformEgress,
  transformService,
  transformSlice,
} from "../../../lib/egress/mod.ts";

/** Index of slices by the key of the Egress whose Service they belong to. */
const BY_EGRESS = "egress";

/**
 * Follows the Egresses of one namespace, their Services and EndpointSlices.
 *
 * The API server has watches of one namespace in an index. Those of all
 * namespaces, three from each node, it would compare with each Service and
 * each EndpointSlice that is written in the cluster.
 */
export class NamespaceWatch {
  readonly egresses: Informer<Egress>;
  readonly services: Informer<V1Service>;
  readonly slices: Informer<V1EndpointSlice>;

  /** `onChange` is called with the key of an Egress of which something changed. */
  constructor(
    client: KubeClient,
    namespace: string,
    onChange: (egress: string) => void,
  ) {
    const ofEgresses = { namespace, labelSelector: EGRESS_SELECTOR };
    this.egresses = new Informer(client, EGRESSES, {
      namespace,
      transform: transformEgress,
      onChange: ({ key }) => onChange(key),
    });
    // The Service of an Egress has its name.
    this.services = new Informer(client, SERVICES, {
      ...ofEgresses,
      transform: transformService,
      onChange: ({ key }) => onChange(key),
    });
    this.slices = new Informer(client, ENDPOINT_SLICES, {
      ...ofEgresses,
      transform: transformSlice,
      indexes: { [BY_EGRESS]: (slice) => [egressOf(slice)] },
      onChange: ({ object }) => onChange(egressOf(object)),
    });
  }

  /** The EndpointSlices of an Egress, by its key. */
  slicesOf(egress: string): readonly V1EndpointSlice[] {
    return this.slices.store.byIndex(BY_EGRESS, egress);
  }

  /** Watches until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([
      this.egresses.run(signal),
      this.services.run(signal),
      this.slices.run(signal),
    ]);
  }
}

function egressOf({ metadata }: V1EndpointSlice): string {
  const service = metadata?.labels?.[SERVICE_NAME_LABEL] ?? "";
  return `${metadata?.namespace ?? ""}/${service}`;
}
