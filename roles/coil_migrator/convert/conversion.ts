import {
  type AddressBlock,
  type AddressPool,
  blockIndexOf,
  type Pool,
  poolCapacity,
} from "../../../lib/api/mod.ts";
import { type Address, PrefixMap } from "../../../lib/inet/mod.ts";
import type { V1Namespace } from "../../../lib/kube/mod.ts";
import { compareText, nameText } from "../../../lib/names/mod.ts";
import {
  addressBlockOf,
  convertBlocks,
  type ReservedBlock,
  singleAddressBlock,
} from "./blocks.ts";
import { type Finding, sortedFindings } from "./finding.ts";
import { convertNamespaces, type NamespacePatch } from "./namespaces.ts";
import { convertPools } from "./pools.ts";
import type { V1Address, V1State } from "../v1/state.ts";

/** A pod that has an address of its own. */
export interface AddressedPod {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly addresses: readonly Address[];
}

export interface ClusterFacts {
  readonly nodes: ReadonlySet<string>;
  readonly namespaces: readonly V1Namespace[];
  /** Without those in the host's network, and without those that have ended. */
  readonly pods: readonly AddressedPod[];
}

/** Objects to apply, and notes for the admin. */
export interface Conversion {
  readonly pools: readonly AddressPool[];
  readonly blocks: readonly AddressBlock[];
  readonly namespaces: readonly NamespacePatch[];
  readonly findings: readonly Finding[];
}

/** Converts v1's state to v2's objects. Pure: the same input gives the same output, in any order. */
export function convert(state: V1State, facts: ClusterFacts): Conversion {
  const converted = convertPools(state.pools);
  const pools = converted.pools.map(({ pool }) => pool);
  const held = convertBlocks(state.blocks, { pools, nodes: facts.nodes });
  const pods = coverPods(facts, { pools, blocks: held.blocks });
  const names = pools.map(({ name }) => name);
  const namespaces = convertNamespaces(names, facts.namespaces);
  const blocks = [...held.blocks, ...pods.blocks];
  return {
    pools: converted.pools.map(({ object }) => object),
    blocks: sortedBlocks(blocks).map(addressBlockOf),
    namespaces: namespaces.namespaces,
    findings: sortedFindings([
      ...converted.findings,
      ...held.findings,
      ...pods.findings,
      ...namespaces.findings,
      ...pools.flatMap((pool) => roomFor(pool, blocks)),
      ...forgottenAddresses(state.addresses, blocks),
    ]),
  };
}

/** Makes sure that the address of each pod is reserved: v2 must not give it to another. */
function coverPods(facts: ClusterFacts, known: Known): Covered {
  const held = indexOf(known.blocks);
  const names = new Set(known.blocks.map(({ name }) => name));
  const blocks: ReservedBlock[] = [];
  const findings: Finding[] = [];
  for (const pod of sortedPods(facts.pods)) {
    const subject = `pod ${nameText(pod)}`;
    for (const address of pod.addresses) {
      const holders = held.of(address);
      if (holders.some(({ node }) => node === pod.node)) continue;
      if (holders[0] !== undefined) {
        findings.push(otherNode(pod, { address, subject, block: holders[0] }));
        continue;
      }
      const place = placeOf(address, known.pools);
      const message = `${address} on node ${pod.node} is in no block of v1`;
      if (place === undefined || !facts.nodes.has(pod.node)) {
        const why = place === undefined ? "in no pool" : "its node is unknown";
        findings.push({
          kind: "address-without-block",
          severity: "note",
          subject,
          message: `${message} (${why}); ignored`,
        });
        continue;
      }
      const { node } = pod;
      const block = singleAddressBlock(address, {
        ...place,
        node,
        taken: names,
      });
      names.add(block.name);
      blocks.push(block);
      findings.push({
        kind: "address-without-block",
        severity: "warning",
        subject,
        message: `${message}; it is reserved as ${block.name}`,
      });
    }
  }
  return { blocks, findings };
}

interface Known {
  readonly pools: readonly Pool[];
  readonly blocks: readonly ReservedBlock[];
}

interface Covered {
  readonly blocks: readonly ReservedBlock[];
  readonly findings: readonly Finding[];
}

function otherNode(
  pod: AddressedPod,
  { address, subject, block }: {
    readonly address: Address;
    readonly subject: string;
    readonly block: ReservedBlock;
  },
): Finding {
  return {
    kind: "pod-on-other-node",
    severity: "warning",
    subject,
    message:
      `it is on node ${pod.node}, but ${address} is in block ${block.prefix} of node ${block.node}; replace the pod soon`,
  };
}

function placeOf(
  address: Address,
  pools: readonly Pool[],
): { pool: Pool; index: number } | undefined {
  for (const pool of pools) {
    const index = blockIndexOf(pool, address);
    if (index !== undefined) return { pool, index };
  }
  return undefined;
}

/** While pods are replaced, a node has its reserved blocks and needs another one beside them. */
function roomFor(pool: Pool, blocks: readonly ReservedBlock[]): Finding[] {
  const own = blocks.filter((block) => block.pool === pool.name);
  const nodes = new Set(own.map(({ node }) => node)).size;
  const total = poolCapacity(pool);
  const free = total - new Set(own.map(({ index }) => index)).size;
  if (free >= nodes) return [];
  return [{
    kind: "pool-nearly-full",
    severity: "warning",
    subject: `pool ${pool.name}`,
    message:
      `${free} of ${total} blocks are free, and ${nodes} nodes need one each while their pods are replaced; append a subnet to the AddressPool, otherwise pods have to wait`,
  }];
}

/** Addresses that v1 has on record, outside any block: nothing will look for them again. */
function forgottenAddresses(
  addresses: readonly V1Address[],
  blocks: readonly ReservedBlock[],
): Finding[] {
  const held = indexOf(blocks);
  const lost = addresses.filter(({ address }) => held.of(address).length === 0);
  const [first] = lost;
  if (first === undefined) return [];
  const some = lost.slice(0, 3).map(({ address, pod }) =>
    pod === undefined ? `${address}` : `${address} (${pod})`
  );
  return [{
    kind: "address-without-block",
    severity: "note",
    subject: "addresses on record",
    message: `${lost.length} of them ${
      lost.length === 1 ? "is" : "are"
    } in no block of a node and of no pod, and can be assigned again: ${
      some.join(", ")
    }${lost.length > some.length ? ", …" : ""}`,
  }];
}

function indexOf(
  blocks: readonly ReservedBlock[],
): PrefixMap<ReservedBlock> {
  const index = new PrefixMap<ReservedBlock>();
  for (const block of blocks) index.add(block.prefix, block);
  return index;
}

function sortedPods(pods: readonly AddressedPod[]): AddressedPod[] {
  return pods.toSorted((a, b) =>
    compareText(a.namespace, b.namespace) || compareText(a.name, b.name)
  );
}

function sortedBlocks(blocks: readonly ReservedBlock[]): ReservedBlock[] {
  return blocks.toSorted((a, b) =>
    compareText(a.pool, b.pool) || a.index - b.index ||
    a.prefix.compare(b.prefix) ||
    compareText(a.name, b.name)
  );
}
