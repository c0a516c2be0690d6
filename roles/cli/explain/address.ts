import {
  type BlockRow,
  blockRows,
  type Finding,
  findingsOf,
} from "../../../lib/ipam/audit/mod.ts";
import {
  isReserved,
  type Pool,
  reservedPositions,
  tryBlockOf,
  tryPoolOf,
} from "../../../lib/api/mod.ts";
import { type Address, type Prefix, valuesOf } from "../../../lib/inet/mod.ts";
import { nameText, POOL_LABEL, VPC_POOL } from "../../../lib/names/mod.ts";
import type { AddressHolder, Facts, Former } from "./facts.ts";

/**
 * What an address is. `in-use`: pods have it. `free`: in a node's block, and
 * no pod has it. `unallocated`: in a pool, in no block. `foreign`: in no pool.
 * `unknown`: not all could be read that decides it.
 */
export type AddressUse =
  | "in-use"
  | "free"
  | "unallocated"
  | "foreign"
  | "unknown";

/** A pod as it is shown. */
export type Holder = Omit<AddressHolder, "addresses" | "isHostNetwork">;

/** All there is to say of an address. */
export interface AddressReport {
  readonly address: string;
  readonly use: AddressUse;
  /** The same in a sentence. */
  readonly summary: string;
  readonly holders: readonly Holder[];
  /** Pods that have ended and had it; they have it no longer. */
  readonly ended: readonly Holder[];
  /** Who had it before, the last one first; absent if nodes were not asked. */
  readonly former?: readonly Former[] | undefined;
  readonly blocks: readonly BlockRow[];
  readonly pools: readonly PoolNote[];
  /** What else has it, e.g. `Node node1`. */
  readonly others: readonly string[];
  readonly problems: readonly Finding[];
}

/** A pool, and what of its state matters. */
export interface PoolNote {
  readonly name: string;
  readonly note: "" | "paused" | "being deleted" | "address reserved";
}

/** Puts together what is known of an address. Pure. */
export function explainAddress(
  address: Address,
  all: Facts,
  now: Date,
): AddressReport {
  const facts = narrow(address, all);
  const has = ({ addresses }: { readonly addresses: readonly Address[] }) =>
    addresses.some((each) => each.equals(address));
  const pods = (facts.pods ?? []).filter((pod) => has(pod));
  const own = pods.filter(({ isHostNetwork }) => !isHostNetwork);
  const holders = own.filter((pod) => !hasEnded(pod));
  const found = {
    holders: holders.map(shown),
    ended: own.filter(hasEnded).map(shown),
    former: facts.former?.filter((each) =>
      each.addresses.includes(`${address}`)
    ),
    blocks: blockRows(facts.blocks ?? [], []),
    pools: notesOf(facts.pools, isReservedBy(address, facts)),
    others: [
      ...facts.others.filter(has).map(({ object }) => object),
      ...pods.filter((pod) => pod.isHostNetwork && !hasEnded(pod))
        .map((pod) => `Pod ${nameText(pod)} on the host network`),
    ],
  };
  const use = useOf(found, facts);
  return {
    address: address.toString(),
    use,
    summary: summaryOf(use, found),
    ...found,
    problems: problemsOf(address, { facts, holders, now }),
  };
}

type Found = Pick<
  AddressReport,
  "holders" | "ended" | "blocks" | "pools" | "others"
>;

function hasEnded({ phase }: AddressHolder): boolean {
  return phase === "Succeeded" || phase === "Failed";
}

function shown(pod: AddressHolder): Holder {
  const { addresses: _, isHostNetwork: __, ...rest } = pod;
  return rest;
}

/** The blocks and pools that have the address. */
function narrow(address: Address, { blocks, pools, ...rest }: Facts): Facts {
  const has = (prefixes: readonly Prefix[]) =>
    prefixes.some((prefix) => prefix.contains(address));
  return {
    ...rest,
    blocks: blocks?.filter((block) =>
      has(valuesOf(tryBlockOf(block)?.prefixes ?? {}))
    ),
    pools: pools?.filter((pool) =>
      has((tryPoolOf(pool)?.subnets ?? []).flatMap(valuesOf))
    ),
  };
}

/** Whether spec.reserved of a pool keeps the address from pods: it, or the one of the other family at its position. */
function isReservedBy(
  address: Address,
  { blocks = [] }: Facts,
): (pool: Pool) => boolean {
  const networks = blocks.flatMap((block) => tryBlockOf(block)?.prefixes ?? []);
  return (pool) =>
    isReserved(pool, address) || networks.some((prefixes) => {
      const position = prefixes[address.family]?.indexOf(address) ?? -1n;
      return reservedPositions(prefixes, pool.reserved)
        .some(({ first, last }) => first <= position && position <= last);
    });
}

function notesOf(
  pools: Facts["pools"] = [],
  isReserved: (pool: Pool) => boolean,
): PoolNote[] {
  return pools.flatMap((object) => tryPoolOf(object) ?? [])
    .map((pool) => ({ name: pool.name, note: noteOf(pool, isReserved(pool)) }));
}

function noteOf(
  { deleting, paused }: Pool,
  isReserved: boolean,
): PoolNote["note"] {
  if (isReserved) return "address reserved";
  if (deleting) return "being deleted";
  return paused ? "paused" : "";
}

function useOf({ holders, blocks, pools }: Found, facts: Facts): AddressUse {
  if (holders.length > 0) return "in-use";
  if (facts.pods === undefined) return "unknown";
  if (blocks.length > 0) return "free";
  if (facts.blocks === undefined) return "unknown";
  if (pools.length > 0) return "unallocated";
  return facts.pools === undefined ? "unknown" : "foreign";
}

function summaryOf(use: AddressUse, found: Found): string {
  const { holders, pools, others } = found;
  switch (use) {
    case "in-use": {
      const names = holders.map((pod) =>
        `Pod ${nameText(pod)}${pod.isEnding ? " (ending)" : ""}`
      );
      return `in use by ${names.join(" and ")}`;
    }
    case "free":
      return `free: no pod has it${readiness(found)}`;
    case "unallocated":
      return `free: no node has a block of AddressPool "${
        pools[0]?.name
      }" with it${
        pools[0]?.note === "address reserved" ? `; ${RESERVED}` : ""
      }`;
    case "foreign":
      return others.length === 0
        ? "not Coil's: no AddressPool has it"
        : `not Coil's: no AddressPool has it. It belongs to ${
          others.join(" and ")
        }`;
    case "unknown":
      return "unknown: not all of it could be looked at";
  }
}

const RESERVED = "its pool's spec.reserved keeps it, so no pod gets it";

/** Whether the next pod may get a free address. */
function readiness({ blocks: [block], pools }: Found): string {
  if (block?.state === "reserved") {
    return "; its block is reserved, so none gets it";
  }
  if (block?.state === "deleting") {
    return "; its block is being returned, so none gets it";
  }
  const note = pools.find(({ name }) => name === block?.pool)?.note ?? "";
  if (note === "address reserved") return `; ${RESERVED}`;
  return note === ""
    ? `; the next one on Node ${block?.node} may get it`
    : `; its pool is ${note}, so none gets it`;
}

function problemsOf(
  address: Address,
  { facts, holders, now }: {
    readonly facts: Facts;
    readonly holders: readonly AddressHolder[];
    readonly now: Date;
  },
): Finding[] {
  const { pods, blocks, pools, nodes } = facts;
  return findingsOf({
    nodes,
    blocks: blocks?.filter(({ metadata }) =>
      metadata.labels?.[POOL_LABEL] !== VPC_POOL
    ),
    pools,
    // What a pod that ends has may be free already, and another's.
    pods: pods && holders.filter(({ isEnding }) => !isEnding)
      .map(({ namespace, name, node }) => ({
        namespace,
        name,
        node,
        addresses: { [address.family]: address },
      })),
  }, now);
}
