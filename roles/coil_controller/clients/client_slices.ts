import {
  clientSliceName,
  type Egress,
  EGRESS_CLIENT_SLICES,
  type EgressClientSlice,
  parseClientSliceName,
} from "../../../lib/api/mod.ts";
import { abortable, KeyedMutex, withTimeout } from "../../../lib/async/mod.ts";
import {
  Informer,
  keyOf,
  type KubeClient,
  type Store,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import {
  APP_INSTANCE_LABEL,
  GROUP_VERSION,
  PODS_VERSION_ANNOTATION,
} from "../../../lib/names/mod.ts";
import { deleteIfThere } from "../base/delete.ts";
import { planMetadata, type PlannedMetadata } from "../base/metadata.ts";
import { precedes } from "../base/versions.ts";
import { clientsOf, newestVersionOf } from "./client_pods.ts";
import { planSlices } from "./slice_plan.ts";

/** Names of the indexes: the Egress that a slice is of, by its name, and the one that its label names. */
const BY_NAME = "name";
const BY_LABEL = "label";

/** What one watch has shown another shows within milliseconds; own writes too, unless another program has undone them. */
const SEEN_MS = 2_000;

/** Follows all slices. */
export function sliceInformer(client: KubeClient): Informer<EgressClientSlice> {
  return new Informer(client, EGRESS_CLIENT_SLICES, {
    indexes: {
      [BY_NAME]: ({ metadata }) => {
        const parsed = parseClientSliceName(metadata.name ?? "");
        return parsed === undefined
          ? []
          : [`${metadata.namespace}/${parsed.egress}`];
      },
      [BY_LABEL]: ({ metadata }) => {
        const name = metadata.labels?.[APP_INSTANCE_LABEL];
        return name === undefined ? [] : [`${metadata.namespace}/${name}`];
      },
    },
  });
}

/** The Egresses that a slice has to do with, as `namespace/name`. */
export function egressesOfSlice({ metadata }: EgressClientSlice): string[] {
  const names = [
    parseClientSliceName(metadata.name ?? "")?.egress,
    metadata.labels?.[APP_INSTANCE_LABEL],
  ].filter((name) => name !== undefined);
  return [...new Set(names)].map((name) => `${metadata.namespace}/${name}`);
}

export interface ClientSlicesOptions {
  readonly client: KubeClient;
  readonly egresses: Pick<Informer<Egress>, "store">;
  readonly pods: Pick<Informer<V1Pod>, "store" | "subscribe" | "version">;
  readonly slices: Pick<Informer<EgressClientSlice>, "store" | "subscribe">;
}

/** Keeps the EgressClientSlices: who the clients of each Egress are, for its gateways. */
export class ClientSlices {
  readonly #options: ClientSlicesOptions;
  readonly #turns = new KeyedMutex();
  /** UIDs of Egresses whose clients have been written once, by key. */
  readonly #complete = new Map<string, string | undefined>();

  constructor(options: ClientSlicesOptions) {
    this.#options = options;
  }

  /** Returns when the Egress' clients have been written once: a gateway that starts finds them. */
  async ensure(
    { metadata: { namespace, name, uid } }: Egress,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<void> {
    const key = `${namespace}/${name}`;
    if (this.#complete.get(key) !== uid) await this.reconcile(key, signal);
  }

  /**
   * Makes the slices of the Egress of the key `namespace/name` say what its pods say.
   *
   * @throws {KubeApiError} when the API server refuses, also because another program changed a slice
   */
  async reconcile(key: string, signal: AbortSignal): Promise<void> {
    using _turn = await this.#turns.lock(key, { signal });
    const egress = this.#options.egresses.store.get(key);
    if (egress === undefined) return void this.#complete.delete(key);
    // They go with it.
    if (egress.metadata.deletionTimestamp !== undefined) return;
    const written = await this.#write(egress, { key, signal });
    await this.#seen(written, signal);
    this.#complete.set(key, egress.metadata.uid);
  }

  /** Returns the slices that were written, by key, with their new versions; undefined for those that were deleted. */
  async #write(
    egress: Egress,
    { key, signal }: { readonly key: string; readonly signal: AbortSignal },
  ): Promise<Map<string, string | undefined>> {
    const { pods, slices } = this.#options;
    const { namespace = "", name = "" } = egress.metadata;
    const metadata = planMetadata(egress);
    const live = liveOf(await this.#known(key, signal));
    const plan = planSlices(
      clientsOf(pods, key),
      [...live].map(([number, slice]) => ({
        number,
        clients: slice.clients ?? [],
        isDamaged: !hasMetadata(slice, metadata),
      })),
    );
    const puts = plan.writes.map(({ number, clients }) => {
      const annotations = {
        [PODS_VERSION_ANNOTATION]: newestVersionOf(pods, clients),
      };
      const target = { namespace, name: clientSliceName(name, number) };
      const slice = {
        ...TYPE,
        metadata: { ...metadata, ...target, annotations },
        clients,
      };
      return { slice, found: live.get(number) };
    });
    const written = new Map<string, string | undefined>();
    for (const { slice, found } of puts) {
      const object = await this.#put(slice, { found, signal });
      written.set(keyOf(object), object.metadata.resourceVersion);
    }
    const misplaced = slices.store.byIndex(BY_LABEL, key).filter((slice) =>
      parseClientSliceName(slice.metadata.name ?? "")?.egress !== name
    );
    const spare = plan.deletes.map((number) => live.get(number));
    for (const slice of [...spare, ...misplaced]) {
      // One that is being deleted waits for another program's finalizer.
      if (slice === undefined || isDeleting(slice)) continue;
      // mutate: before or after the next; where a step fails, none is waited for.
      await this.#delete(slice, signal);
      written.set(keyOf(slice), undefined);
    }
    return written;
  }

  /**
   * The Egress' slices, when all pods that they name are known here. Another
   * leader may have seen more pods: what it wrote would be undone.
   */
  async #known(
    key: string,
    signal: AbortSignal,
  ): Promise<readonly EgressClientSlice[]> {
    const { pods, slices } = this.#options;
    const find = () => {
      const found = slices.store.byIndex(BY_NAME, key);
      const isAhead = found.some((slice) => isNewer(slice, pods.version));
      return isAhead ? undefined : found;
    };
    const known = await untilFound(pods, { find, signal });
    if (known !== undefined) return known;
    throw new Error(
      `Cannot write the clients of Egress "${key}": its EgressClientSlices name pods that are newer than version ${pods.version}, which the watch of pods has reached`,
    );
  }

  /** Writes a slice as long as it is the one that was planned for. */
  async #put(
    slice: EgressClientSlice,
    { found, signal }: {
      readonly found: EgressClientSlice | undefined;
      readonly signal: AbortSignal;
    },
  ): Promise<EgressClientSlice> {
    const { client } = this.#options;
    if (found === undefined) {
      return await client.create(EGRESS_CLIENT_SLICES, slice, { signal });
    }
    const { uid, resourceVersion } = found.metadata;
    const { metadata: { namespace, name = "", ...planned }, clients } = slice;
    const metadata = { ...planned, uid, resourceVersion };
    return await client.patch(
      EGRESS_CLIENT_SLICES,
      { ...(namespace !== undefined && { namespace }), name, signal },
      { metadata, clients },
      { kind: "merge" },
    );
  }

  async #delete(
    { metadata }: EgressClientSlice,
    signal: AbortSignal,
  ): Promise<void> {
    const { namespace = "", name = "", uid, resourceVersion } = metadata;
    await deleteIfThere(this.#options.client, EGRESS_CLIENT_SLICES, {
      namespace,
      name,
      preconditions: { uid, resourceVersion },
      signal,
    });
  }

  /** Waits for the watch to bring what was written: planned on older slices, the next change would be refused. */
  async #seen(
    written: ReadonlyMap<string, string | undefined>,
    signal: AbortSignal,
  ): Promise<void> {
    const { slices } = this.#options;
    const find = () =>
      [...written].every((entry) => isSeen(slices.store, entry)) || undefined;
    await untilFound(slices, { find, signal });
  }
}

/** Looks now and at each change until something is found; undefined when that takes too long. */
async function untilFound<T>(
  informer: { subscribe(listener: () => void): Disposable },
  { find, signal }: {
    readonly find: () => T | undefined;
    readonly signal: AbortSignal;
  },
): Promise<T | undefined> {
  const { promise, resolve } = Promise.withResolvers<T>();
  const look = () => {
    const found = find();
    if (found !== undefined) resolve(found);
  };
  using _subscription = informer.subscribe(look);
  look();
  try {
    return await withTimeout(SEEN_MS, (s) => abortable(promise, s), { signal });
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

/**
 * Whether a slice was written for pods that are newer than this version. The
 * version of a pod cannot be above that of the slice: else another program wrote it,
 * or slices are in an etcd of their own, and it says nothing.
 */
function isNewer(
  { metadata: { annotations, resourceVersion } }: EgressClientSlice,
  version: string | undefined,
): boolean {
  const pods = annotations?.[PODS_VERSION_ANNOTATION];
  return precedes(version, pods) && !precedes(resourceVersion, pods);
}

const TYPE = { apiVersion: GROUP_VERSION, kind: "EgressClientSlice" } as const;

function isSeen(
  store: Store<EgressClientSlice>,
  [key, version]: readonly [string, string | undefined],
): boolean {
  const slice = store.get(key);
  if (version === undefined) return slice === undefined || isDeleting(slice);
  const found = slice?.metadata.resourceVersion;
  return found !== undefined && !precedes(found, version);
}

function isDeleting({ metadata }: EgressClientSlice): boolean {
  return metadata.deletionTimestamp !== undefined;
}

function liveOf(
  slices: readonly EgressClientSlice[],
): Map<number, EgressClientSlice> {
  const live = new Map<number, EgressClientSlice>();
  for (const slice of slices) {
    const parsed = parseClientSliceName(slice.metadata.name ?? "");
    if (parsed !== undefined) live.set(parsed.number, slice);
  }
  return live;
}

function hasMetadata(
  { metadata }: EgressClientSlice,
  { labels, ownerReferences: [owner] }: PlannedMetadata,
): boolean {
  return Object.entries(labels)
    .every(([label, value]) => metadata.labels?.[label] === value) &&
    metadata.ownerReferences?.length === 1 &&
    metadata.ownerReferences[0]?.uid === owner?.uid;
}
