import {
  abortable,
  Backoff,
  CoalescedRunner,
  SingleFlight,
  sleep,
} from "../../../lib/async/mod.ts";
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
/** The least time between two readings of known Services, however often EndpointSlices come and go. */
const PAUSE_MS = 1_000;

interface KnownService {
  readonly ref: NamespacedName;
  readonly service: V1Service;
  /** UIDs of the EndpointSlices that were there before it was read; undefined: it is to be read again. */
  readonly slices: string | undefined;
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
 * (k8s.io/endpointslice, reconciler.go), and is read again for them: beside
 * the look at what is known, so that no change of gateways waits for it.
 */
export class NamespaceWatch {
  readonly egresses: Informer<Egress>;
  readonly slices: Informer<V1EndpointSlice>;
  readonly #client: KubeClient;
  readonly #onChange: (egress: string) => void;
  /** By the key of their Egress, whose name they have. */
  readonly #services = new Map<string, KnownService>();
  readonly #reads = new SingleFlight<V1Service | undefined>();
  readonly #rereads = new CoalescedRunner((signal) => this.#readAgain(signal), {
    minIntervalMs: PAUSE_MS,
  });
  readonly #backoff = new Backoff({
    initialMs: PAUSE_MS,
    maxMs: 30_000,
    jitter: 1,
  });

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
   * The Service of an Egress that exists, as it is known; undefined if there is
   * none. The API server is asked for one that is not known.
   *
   * @throws {KubeUnreachableError} when it cannot be asked
   */
  async serviceOf(
    ref: NamespacedName,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<V1Service | undefined> {
    const key = nameText(ref);
    const service = this.#services.get(key)?.service ??
      await abortable(this.#reads.do(key, () => this.#read(ref)), signal);
    const known = this.#services.get(key);
    if (known !== undefined && this.#isStale(known)) this.#rereads.trigger();
    return service;
  }

  /** Has all Services read again: one that was given other addresses by hand has the same EndpointSlices. */
  doubtServices(): void {
    for (const [key, known] of this.#services) {
      this.#services.set(key, { ...known, slices: undefined });
    }
    this.#rereads.trigger();
  }

  /** Watches until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([
      this.egresses.run(signal),
      this.slices.run(signal),
      this.#rereads.run(signal),
    ]);
  }

  async #readAgain(signal: AbortSignal): Promise<void> {
    let isAnswered = true;
    for (const [key, known] of [...this.#services]) {
      if (!this.#isStale(known)) continue;
      try {
        const now = await this.#read(known.ref, signal);
        if (addressesOf(now) !== addressesOf(known.service)) {
          this.#onChange(key);
        }
      } catch {
        // What is known counts on until the API server answers.
        isAnswered = false;
      }
    }
    if (isAnswered) return this.#backoff.reset();
    await sleep(this.#backoff.nextMs(), { signal });
    this.#rereads.trigger();
  }

  async #read(
    ref: NamespacedName,
    signal?: AbortSignal,
  ): Promise<V1Service | undefined> {
    const slices = this.#uidsOf(ref);
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

  #isStale({ ref, slices }: KnownService): boolean {
    return slices !== this.#uidsOf(ref);
  }

  #uidsOf(ref: NamespacedName): string {
    return this.slicesOf(nameText(ref))
      .map(({ metadata }) => metadata?.uid).sort().join();
  }
}

function addressesOf(service: V1Service | undefined): string {
  return String(service?.spec?.clusterIPs);
}

function egressOf({ metadata }: V1EndpointSlice): string {
  const service = metadata?.labels?.[SERVICE_NAME_LABEL] ?? "";
  return `${metadata?.namespace ?? ""}/${service}`;
}
