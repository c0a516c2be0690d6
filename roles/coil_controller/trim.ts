import type { V1Node } from "../../lib/kube/mod.ts";
import type {
  AddressBlock,
  AddressPool,
  BlockRequest,
  ObjectMeta,
} from "../../lib/api/mod.ts";
import {
  FINALIZER,
  NODE_LABEL,
  POOL_LABEL,
  REQUEST_LABEL,
} from "../../lib/names/mod.ts";

/**
 * What stays in memory of each cached object. There may be 50,000 blocks, so
 * that every field kept of them costs half a megabyte or more.
 */

/** Nearly every block has just this; one list serves them all. */
const OUR_FINALIZER: readonly string[] = [FINALIZER];

/**
 * Makes the function that keeps a block's identity, labels, index and
 * deletion. Equal names of pools and nodes become one string, which would
 * otherwise be there once for each block.
 */
export function blockTrimmer(): (block: AddressBlock) => AddressBlock {
  const names = new Map<string, string>();
  const shared = (name: string): string => {
    const known = names.get(name);
    if (known !== undefined) return known;
    names.set(name, name);
    return name;
  };
  return ({ apiVersion, kind, metadata, index }) => {
    const { name = "", uid = "", labels = {}, finalizers, deletionTimestamp } =
      metadata;
    const trimmed: Record<string, string> = {};
    for (const key of [POOL_LABEL, NODE_LABEL, REQUEST_LABEL]) {
      const value = labels[key];
      if (value === undefined) continue;
      trimmed[key] = key === REQUEST_LABEL ? value : shared(value);
    }
    return {
      apiVersion,
      kind,
      metadata: {
        name,
        uid,
        labels: trimmed,
        finalizers: isOurs(finalizers) ? OUR_FINALIZER : finalizers ?? [],
        ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
      },
      index,
    };
  };
}

function isOurs(finalizers: readonly string[] | undefined): boolean {
  return finalizers?.length === 1 && finalizers[0] === FINALIZER;
}

/** Keeps all of a pool but the record of who wrote which field. */
export function trimPool(pool: AddressPool): AddressPool {
  return { ...pool, metadata: trimMetadata(pool.metadata) };
}

/** Keeps all of a request but the record of who wrote which field. */
export function trimRequest(request: BlockRequest): BlockRequest {
  return { ...request, metadata: trimMetadata(request.metadata) };
}

/** Keeps a node's identity. */
export function trimNode(node: V1Node): V1Node {
  const { name = "", uid = "" } = node.metadata ?? {};
  return { metadata: { name, uid } };
}

function trimMetadata(metadata: ObjectMeta): ObjectMeta {
  const {
    name,
    uid,
    resourceVersion,
    generation,
    deletionTimestamp,
    finalizers,
  } = metadata;
  return {
    ...(name === undefined ? {} : { name }),
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
    ...(generation === undefined ? {} : { generation }),
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    ...(finalizers === undefined ? {} : { finalizers }),
  };
}
