/** What must hold of the simulated cluster, at any time and at rest. */
import assert from "node:assert/strict";
import { Address, Prefix, valuesOf } from "../../lib/inet/mod.ts";
import { NODE_LABEL } from "../../lib/names/mod.ts";
import type { AttachmentKey } from "../../lib/cni/mod.ts";
import type { SimApi, Stored } from "./sim_api.ts";
import type { SimKernel } from "./sim_kernel.ts";
import type { SimCoild } from "./sim_node.ts";

/** A pod as its runtime knows it. */
export interface SimPod extends AttachmentKey {
  readonly node: SimNode;
  readonly pool: string;
  phase: "detached" | "attached" | "unknown";
  /** ADD was answered with these, and no DEL has begun. */
  addresses: readonly string[];
  isBusy: boolean;
  /** Ends the runtime's wait for the call that is under way. */
  hangUp: (() => void) | undefined;
}

/** A node: what outlives its daemon, and the daemon that runs. */
export interface SimNode {
  readonly name: string;
  readonly kernel: SimKernel;
  coild: SimCoild;
  /** A GC is under way. */
  isCollecting: boolean;
}

/** The cluster as the rules see it. */
export interface Cluster {
  readonly api: SimApi;
  readonly nodes: readonly SimNode[];
  readonly pods: readonly SimPod[];
}

/** A block goes only when nobody has an address of it. Returns what is wrong. */
export function findOrphan(
  { nodes }: Cluster,
  object: Stored,
): string | undefined {
  const prefixes = prefixesOf(object);
  for (const { kernel, name } of nodes) {
    if (object.metadata.labels?.[NODE_LABEL] !== name) continue;
    for (const { containerId, inPod } of kernel.links.values()) {
      for (const address of valuesOf(inPod)) {
        if (!prefixes.some((prefix) => prefix.contains(address))) continue;
        return `${object.metadata.name} is gone while ${containerId} of ${name} has ${address}`;
      }
    }
  }
  return undefined;
}

/** After every step. @throws {AssertionError} */
export function checkRules({ api, nodes, pods }: Cluster): void {
  const holders = new Map<string, string>();
  const hold = (address: string, who: string) => {
    const other = holders.get(address) ?? who;
    assert.equal(other, who, `${address} has two holders`);
    holders.set(address, who);
  };
  for (const { name, kernel, coild } of nodes) {
    const { abandoned } = coild;
    assert.deepEqual(abandoned, [], `${name}: releases that nobody ends`);
    for (const { containerId, inPod } of kernel.links.values()) {
      for (const a of valuesOf(inPod)) {
        hold(`${a}`, `${name}/${containerId}`);
      }
    }
  }
  for (const pod of pods) {
    const { name, kernel } = pod.node;
    for (const a of pod.addresses) hold(a, `${name}/${pod.containerId}`);
    // Amid an ADD of what is there already, its link is recreated.
    if (pod.phase !== "attached" || pod.isBusy) continue;
    const links = kernel.pods.filter(({ containerId }) =>
      containerId === pod.containerId
    );
    if (links.some(({ isFlushed }) => isFlushed)) continue;
    const has = links.flatMap(({ addresses }) =>
      valuesOf(addresses).map(String)
    );
    assert.deepEqual(has, pod.addresses, `${pod.containerId} is cut off`);
    for (const text of pod.addresses) assertCovered(api, text, name);
  }
}

function assertCovered(api: SimApi, text: string, node: string): void {
  const address = addressOf(text);
  const isCovered = api.list("addressblocks").some((block) =>
    block.metadata.labels?.[NODE_LABEL] === node &&
    prefixesOf(block).some((prefix) => prefix.contains(address))
  );
  assert.ok(isCovered, `${text} is in no block of ${node}`);
}

/** What is left after the last DEL. */
export function leftovers({ api, nodes }: Cluster): string[] {
  return [
    ...nodes.flatMap(({ name, kernel, coild }) => [
      ...[...kernel.links.values()].map((link) => `${name}: ${link.hostName}`),
      ...coild.ipam.list().map((record) => `${name}: ${record.containerId}`),
    ]),
    ...["addressblocks", "blockrequests"].flatMap((plural) =>
      api.list(plural).map((object) =>
        `${plural} ${object.metadata.name} ${JSON.stringify(object)}`
      )
    ),
  ];
}

function prefixesOf(block: Stored): Prefix[] {
  return [block.ipv4, block.ipv6].flatMap((text) =>
    text === undefined ? [] : [prefixOf(text)]
  );
}

const prefixOf = remembering(Prefix.parse);
const addressOf = remembering(Address.parse);

/** The pools are small, and each rule looks after every step. */
function remembering<T>(parse: (text: string) => T): (text: string) => T {
  const known = new Map<string, T>();
  return (text) => {
    const parsed = known.get(text) ?? parse(text);
    known.set(text, parsed);
    return parsed;
  };
}
