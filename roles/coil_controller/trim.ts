import type { V1Node } from "../../lib/kube/mod.ts";
import type {
  AddressBlock,
  AddressPool,
  BlockRequest,
  ObjectMeta,
} from "../../lib/api/mod.ts";
import {
  FINALIZER,
  GROUP_VERSION,
  NODE_LABEL,
  POOL_LABEL,
} from "../../lib/names/mod.ts";

/**
 * What stays in memory of each cached object. There may be 50,000 blocks, so
 * that every field kept of them costs half a megabyte or more.
 */

/** Nearly every block has just this; one list serves them all. */
const OUR_FINALIZER: readonly string[] = [FINALIZER];

/**
 * Makes the function that keeps a block's identity, pool, node, index and
 * deletion. Blocks of the same pool and node share their labels, which would
 * otherwise be there once for each block.
 */
export function blockTrimmer(): (block: AddressBlock) => AddressBlock {
  const shared = new Map<string, Readonly<Record<string, string>>>();
  const labelsOf = (pool: string | undefined, node: string | undefined) => {
    const key = `${pool ?? ""}/${node ?? ""}`;
    const known = shared.get(key);
    if (known !== undefined) return known;
    const labels = {
      ...(pool === undefined ? {} : { [POOL_LABEL]: pool }),
      ...(node === undefined ? {} : { [NODE_LABEL]: node }),
    };
    shared.set(key, labels);
    return labels;
  };
  return ({ metadata, index }) => {
    const { name = "", uid = "", labels = {}, finalizers, deletionTimestamp } =
      metadata;
    return {
      apiVersion: GROUP_VERSION,
      kind: "AddressBlock",
      metadata: {
        name,
        uid,
        labels: labelsOf(labels[POOL_LABEL], labels[NODE_LABEL]),
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
