/**
 * Objects for the tests of this room.
 *
 * @module
 */
import {
  type AddressBlock,
  type AddressPool,
  newVpcNode,
  type VpcNode,
  type VpcNodeStatus,
} from "../../api/mod.ts";
import { Address, type DualStack, mapDualStack } from "../../inet/mod.ts";
import type { PodAddresses } from "./rows.ts";

export const NOW: Date = new Date("2026-06-01T00:00:00Z");
export const AGO = (hours: number): string =>
  new Date(NOW.getTime() - hours * 3_600_000).toISOString();

export function pool(
  name: string,
  subnets: AddressPool["spec"]["subnets"],
  metadata: object = {},
): AddressPool {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name, creationTimestamp: AGO(72), ...metadata },
    spec: { blockSizeBits: 5, subnets },
  };
}

export function block(
  [poolName, index, node]: readonly [string, number, string],
  addresses: DualStack<string>,
  { labels = {}, ...metadata }: {
    readonly labels?: Readonly<Record<string, string>>;
    readonly deletionTimestamp?: string;
  } = {},
): AddressBlock {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: {
      name: `${poolName}-${index}`,
      creationTimestamp: AGO(5),
      labels: {
        "coil.cybozu.com/pool": poolName,
        "coil.cybozu.com/node": node,
        ...labels,
      },
      ...metadata,
    },
    index,
    ...addresses,
  };
}

export function pod(
  name: string,
  node: string,
  addresses: DualStack<string>,
): PodAddresses {
  return {
    namespace: "apps",
    name,
    node,
    addresses: mapDualStack(addresses, Address.parse),
    since: AGO(1),
  };
}

/** A node of a VPC: the blocks of each of its ENIs. */
export function vpcNode(
  name: string,
  blocks: readonly (readonly string[])[],
  more: Partial<VpcNodeStatus> = {},
): VpcNode {
  const counts = { used: 0, cooling: 0, free: 0 };
  return {
    ...newVpcNode({ name, uid: "u" }),
    status: {
      mode: "address",
      addresses: { ...counts, capacity: 9 },
      enis: blocks.map((blocks, device) => ({
        id: `eni-${name}${device}`,
        device,
        subnet: "subnet-1",
        blocks,
        ...counts,
      })),
      ...more,
    },
  };
}
