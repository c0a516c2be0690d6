import { createHash } from "node:crypto";
import type { AddressBlock } from "../../../lib/api/mod.ts";
import {
  DUMPED_ANNOTATION,
  NODE_LABEL,
  POOL_LABEL,
  RESERVED_LABEL,
} from "../../../lib/names/mod.ts";

const DIGITS = 16;

/** The block with an annotation that shows whether it is as it was dumped. */
export function sealed(block: AddressBlock): AddressBlock {
  const { metadata } = block;
  const annotations = {
    ...metadata.annotations,
    [DUMPED_ANNOTATION]: digestOf(block),
  };
  return { ...block, metadata: { ...metadata, annotations } };
}

/**
 * Says of a block that it was edited since it was dumped, in the manifest or in the cluster. Undefined when it was not,
 * and for those that are from no dump.
 */
export function editOf(block: AddressBlock): string | undefined {
  const { name, annotations = {}, labels = {} } = block.metadata;
  const digest = annotations[DUMPED_ANNOTATION];
  if (digest === undefined || digest === digestOf(block)) return undefined;
  const found = [
    `index ${block.index}`,
    ...(block.ipv4 === undefined ? [] : [block.ipv4]),
    `pool ${labels[POOL_LABEL]}`,
    `node ${labels[NODE_LABEL]}`,
    ...(labels[RESERVED_LABEL] === "true" ? [] : ["not reserved"]),
  ];
  return `AddressBlock ${name} is not as coil migrate dump wrote it: ${
    found.join(", ")
  }`;
}

function digestOf({ metadata, index, ipv4, ipv6 }: AddressBlock): string {
  const { name, labels = {} } = metadata;
  const content = [
    ...[name, labels[POOL_LABEL], labels[NODE_LABEL], labels[RESERVED_LABEL]],
    ...[index, ipv4 ?? null, ipv6 ?? null],
  ];
  return createHash("sha256").update(JSON.stringify(content)).digest("hex")
    .slice(0, DIGITS);
}
