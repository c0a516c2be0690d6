import { abortable, SingleFlight } from "../../../lib/async/mod.ts";
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
import { type NamespacedName, nameText } from "../../../lib/names/mod.ts";

/** Index of slices by the key of the Egress whose Service they belong to. */
const BY_EGRESS = "egress";

const GET_MS = 5_000;

interface KnownService {
  readonly ref: NamespacedName;
  readonly service: V1Service;
  /** UIDs of the EndpointSlices that were there before it was read. */
  readonly slices: string;
}

/**
 * Follows the Egresses of one namespace and the EndpointSlices of their
 * Services, and reads the Services.
 *
 * The API server has watches of one namespace in an index. Those of all
 * namespaces, two from each node, it would compare with each EndpointSlice that
 * is written in the cluster.
 *
 * Services are not watched: their cluster addresses do not change. One that
 * is made again, or gets another family, gets other EndpointSlices
 * (k8s.io/endpointslice, reconciler.go), and is read again for them.
 */
export class NamespaceWatch {
  readonly egresses: Informer<Egress>;
  readonly slices: Informer<V1EndpointSlice>;
  readonly #client: KubeClient;
  readonly #onChange: (egress: string) => void;
  /** By the key of their Egress, whose name they have. */
  readonly #services = new Map<string, KnownService>();
  readonly #reads = new SingleFlight<V1Service | undefined>();

  constructor(
    client: KubeClient,
    { namespace, onChange }: {
      readonly namespace: string;
      /** Called with the key of an Egress of which something changed. */
      readonly onChange: (egress: string) => void;
    },
  ) {
    this.#client = client;
    this.#onChange = onChange;
    this.egresses = new Informer(client, EGRESSES, {
      namespace,
      transform: transformEgress,
      onChange: ({ key }) => onChange(key),
    });
    this.slices = new Informer(client, ENDPOINT_SLICES, {
      namespace,
      labelSelector: EGRESS_SELECTOR,
      transform: transformSlice,
      indexes: { [BY_EGRESS]: (slice) => [egressOf(slice)] },
      onChange: ({ object }) => onChange(egressOf(object)),
    });
  }

  /** The EndpointSlices of an Egress, by its key. */
  slicesOf(egress: string): readonly V1EndpointSlice[] {
    return this.slices.store.byIndex(BY_EGRESS, egress);
  }

  /**
   * The Service of an Egress that exists; undefined if there is none. The API
   * server is asked for one that is not known, and when EndpointSlices have come or gone.
   *
   * @throws {KubeUnreachableError} when it cannot be asked
   */
  async serviceOf(
    ref: NamespacedName,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<V1Service | undefined> {
    const slices = this.slicesOf(nameText(ref))
      .map(({ metadata }) => metadata?.uid).sort().join();
    const known = this.#services.get(nameText(ref));
    if (known?.slices === slices) return known.service;
    const read = this.#reads.do(
      `${ref.name} ${slices}`,
      () => this.#read(ref, { slices }),
    );
    return await abortable(read, signal);
  }

  /** Watches until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.egresses.run(signal), this.slices.run(signal)]);
  }

  /**
   * Reads all Services again, for one that was given other addresses by hand
   * and has the same EndpointSlices. With an API server that is away, what is
   * known of it counts on.
   */
  async readServices(signal: AbortSignal): Promise<void> {
    for (const { ref, service, slices } of [...this.#services.values()]) {
      try {
        const now = await this.#read(ref, { slices, signal });
        if (addressesOf(now) === addressesOf(service)) continue;
        this.#onChange(nameText(ref));
      } catch {
        if (signal.aborted) return;
      }
    }
  }

  async #read(
    ref: NamespacedName,
    { slices, signal }: {
      readonly slices: string;
      readonly signal?: AbortSignal;
    },
  ): Promise<V1Service | undefined> {
    const call = { ...ref, timeoutMs: GET_MS, signal };
    const found = await this.#client.tryGet(SERVICES, call);
    if (found === undefined) {
      this.#services.delete(nameText(ref));
      return undefined;
    }
    const service = transformService(found);
    this.#services.set(nameText(ref), { ref, service, slices });
    return service;
  }
}

function addressesOf(service: V1Service | undefined): string {
  return String(service?.spec?.clusterIPs);
}

function egressOf({ metadata }: V1EndpointSlice): string {
  const service = metadata?.labels?.[SERVICE_NAME_LABEL] ?? "";
  return `${metadata?.namespace ?? ""}/${service}`;
}
