// The objects around Coil in the end-to-end tests: pools, namespaces, nodes.
import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  type AddressBlock,
  EGRESS_SELECTOR,
  EGRESSES,
} from "../../lib/api/mod.ts";
import { TaskGroup } from "../../lib/async/mod.ts";
import { Informer, NAMESPACES, NODES, PODS } from "../../lib/kube/mod.ts";
import { run } from "../lab/mod.ts";
import { eventually } from "../lab/wait.ts";
import type { VmAccess } from "./e2e_access.ts";
import { POOLS, type Topology, type VmNode } from "./topology.ts";

/** Namespace of the Egresses, whose pods have gateways' addresses. */
export const GATEWAYS = "gateways";
/** Namespace of the clients. */
export const CLIENTS = "clients";

/** The pool of each namespace; the clients' has none of its own. */
const NAMESPACE_POOLS: Readonly<
  Record<string, keyof typeof POOLS | undefined>
> = {
  [GATEWAYS]: "gateways",
  "gateways-ipv4": "gateways-ipv4",
  [CLIENTS]: undefined,
  "clients-ipv4": "clients-ipv4",
  "clients-ipv6": "clients-ipv6",
};

/** What a routing daemon does: each node's blocks lead to it. */
export function routeBlocks(
  access: VmAccess,
  topology: Topology,
): AsyncDisposable {
  const stop = new AbortController();
  const tasks = new TaskGroup();
  const routed = new Set<string>();
  const routes = new TaskGroup();
  const blocks = new Informer<AddressBlock>(access.client, ADDRESS_BLOCKS, {
    onChange: () => {
      for (const block of blocks.store.list()) {
        const node = topology.nodes.find((n) =>
          n.name === block.metadata?.labels?.["coil.cybozu.com/node"]
        );
        for (const prefix of [block.ipv4, block.ipv6]) {
          if (prefix === undefined || node === undefined) continue;
          if (routed.has(prefix)) continue;
          routed.add(prefix);
          routes.run(prefix, () => topology.route(prefix, node));
        }
      }
    },
  });
  tasks.run("blocks", () => blocks.run(stop.signal));
  return {
    async [Symbol.asyncDispose](): Promise<void> {
      stop.abort();
      await tasks.wait();
      await routes.wait();
      for (const prefix of routed) await run("ip", ["route", "delete", prefix]);
    },
  };
}

/** Pools, namespaces and nodes. */
export async function createObjects(
  access: VmAccess,
  nodes: readonly VmNode[],
): Promise<void> {
  const { client, admin } = access;
  const { clients, ...pools } = POOLS;
  for (const [name, subnet] of Object.entries({ default: clients, ...pools })) {
    await client.patch(ADDRESS_POOLS, { name }, {
      spec: { blockSizeBits: 6, subnets: [subnet] },
    }, { kind: "apply" });
  }
  for (const [name, pool] of Object.entries(NAMESPACE_POOLS)) {
    await client.patch(NAMESPACES, { name }, {
      metadata: pool === undefined
        ? {}
        : { annotations: { "coil.cybozu.com/pool": pool } },
    }, { kind: "apply" });
    await eventually(`the service account of ${name}`, async () => {
      await admin.request(
        "GET",
        `/api/v1/namespaces/${name}/serviceaccounts/default`,
      );
      return true;
    });
  }
  for (const { name, addresses } of nodes) {
    await client.patch(NODES, { name }, {}, { kind: "apply" });
    const internal = Object.values(addresses).map((address) => ({
      type: "InternalIP",
      address,
    }));
    await client.patch(NODES, { name }, { status: { addresses: internal } }, {
      kind: "merge",
      subresource: "status",
    });
  }
}

/** What is made of Egresses, and makes pods, or keeps an address. */
const MADE_OF_EGRESSES = [
  "/apis/apps/v1/deployments",
  "/apis/apps/v1/replicasets",
  "/api/v1/services",
];

/**
 * Egresses with all that is theirs, and the clients; the rest serves the next cluster as well.
 *
 * That there are no pods for a moment is not enough: a ReplicaSet that the garbage collector has not come to makes
 * others, which the next cluster would take for gateways of its own Egress of that name.
 */
export async function removeObjects(access: VmAccess): Promise<void> {
  const { client } = access;
  const egresses = await client.listAll(EGRESSES, {});
  for (const { metadata } of egresses.items) {
    const { namespace, name = "" } = metadata ?? {};
    await client.delete(EGRESSES, {
      namespace,
      name,
      propagationPolicy: "Background",
    });
  }
  await eventually("pods, and what makes them, to be gone", async () => {
    // Before the pods are listed: what is there makes others in the meantime.
    const noneMakes = await areGone(access, MADE_OF_EGRESSES);
    const { items } = await client.listAll(PODS, {});
    for (const { metadata } of items) {
      const { namespace, name = "" } = metadata ?? {};
      await client.delete(PODS, { namespace, name, gracePeriodSeconds: 0 })
        .catch((error) => {
          if (!error.isNotFound) throw error;
        });
    }
    return noneMakes && items.length === 0;
  }, { timeoutMs: 120_000, intervalMs: 500 });
  const blocks = await client.listAll(ADDRESS_BLOCKS, {});
  for (const { metadata } of blocks.items) {
    const { name = "" } = metadata ?? {};
    await client.patch(ADDRESS_BLOCKS, { name }, {
      metadata: { finalizers: null },
    }, { kind: "merge" });
    await client.delete(ADDRESS_BLOCKS, { name }).catch((error) => {
      if (!error.isNotFound) throw error;
    });
  }
}

/** Whether no Egress has objects at these paths. */
async function areGone(
  { admin }: VmAccess,
  paths: readonly string[],
): Promise<boolean> {
  const query = new URLSearchParams({ labelSelector: EGRESS_SELECTOR });
  for (const path of paths) {
    const { items } = await admin.request("GET", `${path}?${query}`) as {
      readonly items: readonly unknown[];
    };
    if (items.length > 0) return false;
  }
  return true;
}
