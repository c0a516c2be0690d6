import {
  CONFIG_MAPS,
  KubeApiError,
  type KubeClient,
  type V1ConfigMap,
} from "../../../lib/kube/mod.ts";
import { SYSTEM_NAMESPACE } from "../../../lib/names/mod.ts";

/** Name of the ConfigMap in `kube-system` that says how far a migration is. */
export const RECORD_NAME = "coil-migration";

/**
 * How far a migration is, as far as the cluster's other objects do not show it. Times are RFC 3339, numbers decimal.
 * Absent keys have not happened.
 */
export interface MigrationRecord {
  /** When the manifest was written last. */
  readonly dumpedAt?: string;
  /** Digest in the header of that manifest. */
  readonly manifest?: string;
  /** How many pools it has. */
  readonly pools?: string;
  /** How many reserved blocks it has. */
  readonly blocks?: string;
  /** When v1's workloads were gone, and the manifest was known to be the last. */
  readonly v1RemovedAt?: string;
  /** How many pods of v1 there were when replacing began. */
  readonly podsAtStart?: string;
  /** From when on reserved blocks may be missing. */
  readonly removingBlocksAt?: string;
  /** When the last of them was gone. */
  readonly blocksRemovedAt?: string;
  /** UIDs of coild's pods that were there at that moment and are yet to be restarted, with spaces between them. */
  readonly coildToRestart?: string;
  /** When all was done. */
  readonly finishedAt?: string;
}

/**
 * Whether a manifest was written and v1 is not known to have been gone before etcd was read for it: what it gave out to
 * its end may be missing.
 */
export function isDumpUnfinished(
  { dumpedAt, v1RemovedAt }: MigrationRecord,
): boolean {
  return dumpedAt !== undefined && v1RemovedAt === undefined;
}

const TARGET = { name: RECORD_NAME, namespace: SYSTEM_NAMESPACE };

/** Reads the record; empty when there is none. */
export async function readRecord(
  client: KubeClient,
  { signal }: { readonly signal: AbortSignal },
): Promise<MigrationRecord> {
  const map = await client.tryGet(CONFIG_MAPS, { ...TARGET, signal });
  return map?.data ?? {};
}

/** Sets keys of the record; null removes one. The others stay. */
export async function updateRecord(
  client: KubeClient,
  changes: { readonly [K in keyof MigrationRecord]: string | null },
  { signal }: { readonly signal: AbortSignal },
): Promise<void> {
  const patch = { data: changes };
  try {
    await client.patch<V1ConfigMap>(CONFIG_MAPS, { ...TARGET, signal }, patch, {
      kind: "merge",
    });
  } catch (error) {
    if (!(error instanceof KubeApiError && error.isNotFound)) throw error;
    await client.create<V1ConfigMap>(CONFIG_MAPS, {
      metadata: TARGET,
      data: Object.fromEntries(
        Object.entries(changes).flatMap(([key, value]) =>
          value === null ? [] : [[key, value]]
        ),
      ),
    }, { signal });
  }
}

/** Now, as the record has it. */
export function timestamp(): string {
  return new Date().toISOString().replace(/\.\d+Z$/, "Z");
}
