import {
  keepFields,
  type ObjectMeta,
  type V1Node,
} from "../../../lib/kube/mod.ts";
import {
  type AddressBlock,
  type AddressPool,
  blockPrefixes,
  type BlockRequest,
  type BlockRequestSpec,
  type BlockRequestStatus,
  type Pool,
} from "../../../lib/api/mod.ts";
import { type DualStack, FAMILIES, Prefix } from "../../../lib/inet/mod.ts";
import {
  FINALIZER,
  GROUP_VERSION,
  NODE_ADDRESSES_ANNOTATION,
  NODE_LABEL,
  POOL_LABEL,
} from "../../../lib/names/mod.ts";

/**
 * What stays in memory of each cached object. There may be 50,000 blocks, so
 * that every field kept of them costs half a megabyte or more.
 */

/** Nearly every block has just this; one list serves them all. */
const OUR_FINALIZER: readonly string[] = [FINALIZER];

/** A block whose addresses are there, or are those that its index has in a pool. */
export interface CachedBlock extends AddressBlock {
  /** What its addresses follow from; absent when they are in the object. */
  readonly layout?: Pool;
}

export interface BlockTransformOptions {
  /** Called for each block that comes in. */
  readonly onBlock?: () => void;
  /** What is known of a pool. */
  readonly layoutOf?: (pool: string) => Pool | undefined;
}

/**
 * Makes the function that keeps a block's identity, pool, index, addresses and
 * deletion, its node and the node's addresses. Blocks of the same pool and node share their
 * labels and annotation, which would otherwise be there once for each block;
 * and addresses are left out that follow from the index.
 */
export function blockTransform(
  { onBlock, layoutOf }: BlockTransformOptions = {},
): (block: CachedBlock) => CachedBlock {
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
  const sharedTexts = new Map<string, Readonly<Record<string, string>>>();
  const annotationsOf = (text: string) =>
    sharedTexts.getOrInsert(text, { [NODE_ADDRESSES_ANNOTATION]: text });
  return (block) => {
    onBlock?.();
    const { metadata, index } = block;
    const { name = "", uid = "", labels = {}, finalizers, deletionTimestamp } =
      metadata;
    const addresses = metadata.annotations?.[NODE_ADDRESSES_ANNOTATION];
    return {
      apiVersion: GROUP_VERSION,
      kind: "AddressBlock",
      metadata: {
        name,
        uid,
        labels: labelsOf(labels[POOL_LABEL], labels[NODE_LABEL]),
        ...(addresses !== undefined &&
          { annotations: annotationsOf(addresses) }),
        finalizers: isOurs(finalizers) ? OUR_FINALIZER : finalizers ?? [],
        ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
      },
      index,
      ...transformAddresses(block, layoutOf?.(labels[POOL_LABEL] ?? "")),
    };
  };
}

function transformAddresses(
  block: AddressBlock,
  layout: Pool | undefined,
): Pick<CachedBlock, "layout" | "ipv4" | "ipv6"> {
  const { index, ipv4, ipv6 } = block;
  const usual = layout === undefined ? {} : blockPrefixes(layout, index) ?? {};
  const isUsual = ipv4 === usual.ipv4?.toString() &&
    ipv6 === usual.ipv6?.toString();
  if (layout !== undefined && isUsual) return { layout };
  return keepFields(block, "ipv4", "ipv6");
}

/** The addresses of a block. What cannot be read is left out. */
export function addressesOf(block: CachedBlock): DualStack<Prefix> {
  if (block.layout !== undefined) {
    return blockPrefixes(block.layout, block.index) ?? {};
  }
  const prefixes: { ipv4?: Prefix; ipv6?: Prefix } = {};
  for (const family of FAMILIES) {
    const prefix = Prefix.tryParse(block[family] ?? "");
    if (prefix?.family === family) prefixes[family] = prefix;
  }
  return prefixes;
}

function isOurs(finalizers: readonly string[] | undefined): boolean {
  return finalizers?.length === 1 && finalizers[0] === FINALIZER;
}

/** Keeps all of a pool but `managedFields`. */
export function transformPool(pool: AddressPool): AddressPool {
  return { ...pool, metadata: transformMetadata(pool.metadata) };
}

/** Keeps of a request what its answer needs, and of an answered one its identity. */
export function transformRequest(request: BlockRequest): BlockRequest {
  const { apiVersion, kind } = request;
  const metadata = transformMetadata(request.metadata);
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

/** Keeps a node's identity, addresses and podCIDRs. */
export function transformNode(node: V1Node): V1Node {
  const { name = "", uid = "" } = node.metadata ?? {};
  const addresses = (node.status?.addresses ?? [])
    .filter(({ type }) => type === "InternalIP" || type === "ExternalIP")
    .map(({ type, address }) => ({ type, address }));
  const { podCIDRs = [] } = node.spec ?? {};
  return {
    metadata: { name, uid },
    ...(podCIDRs.length > 0 && { spec: { podCIDRs } }),
    status: { addresses },
  };
}

function transformMetadata(metadata: ObjectMeta): ObjectMeta {
  return keepFields(
    metadata,
    "name",
    "uid",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "finalizers",
  );
}
