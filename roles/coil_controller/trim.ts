import type { V1Node } from "../../lib/kube/mod.ts";
import type {
  AddressBlock,
  AddressPool,
  BlockRequest,
  BlockRequestSpec,
  BlockRequestStatus,
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
 * otherwise be there once for each block. `onBlock` is called for each that
 * comes in.
 */
export function blockTrimmer(
  onBlock: () => void = () => {},
): (block: AddressBlock) => AddressBlock {
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
    onBlock();
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

/** Keeps of a request what its answer needs, and of an answered one its identity. */
export function trimRequest(request: BlockRequest): BlockRequest {
  const { apiVersion, kind } = request;
  const metadata = trimMetadata(request.metadata);
  if (!isSettled(request)) return { ...request, metadata };
  const { name = "", uid = "" } = metadata;
  return {
    apiVersion,
    kind,
    metadata: { name, uid },
    spec: NO_SPEC,
    status: SETTLED,
  };
}

const NO_SPEC: BlockRequestSpec = { nodeName: "", poolName: "" };

const SETTLED: BlockRequestStatus = {
  conditions: [{ type: "Complete", status: "True" }],
};

/** Whether nothing is to be done for the request: it has its answer, or is being deleted. */
export function isSettled(request: BlockRequest): boolean {
  return request.metadata.deletionTimestamp !== undefined ||
    (request.status?.conditions ?? []).length > 0;
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
