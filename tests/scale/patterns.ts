// What each role watches: the one table that simulator and bench work with.
import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  BLOCK_REQUESTS,
  EGRESS_CLIENT_SLICES,
  EGRESSES,
} from "../../lib/api/mod.ts";
import {
  CLUSTER_ROLE_BINDINGS,
  DEPLOYMENTS,
  ENDPOINT_SLICES,
  NAMESPACES,
  NODES,
  POD_DISRUPTION_BUDGETS,
  PODS,
  resourcePath,
  type ResourceType,
  ROLE_BINDINGS,
  SERVICE_ACCOUNTS,
  SERVICES,
} from "../../lib/kube/mod.ts";
import { NODE_LABEL } from "../../lib/names/mod.ts";

/**
 * By what a watch is selected. `node` (a pod's `spec.nodeName`) and `name` are in
 * an index of the API server, and so is the namespace; `label` is compared with
 * each object that is written.
 */
export type Reach = "all" | "label" | "name" | "namespace" | "node";

/** A watch that a role keeps open. */
export interface WatchKind {
  readonly type: ResourceType<unknown>;
  readonly by: Reach;
}

/** What a block costs from its request to its return. */
export interface BlockCycle {
  /** Requests of coild that write nothing: the watch of a request's name, GETs. One that is refused has no block to get. */
  readonly reads: Readonly<Record<"obtain" | "refuse" | "giveBack", number>>;
  /** Writes of coild and of the controller, together. */
  readonly writes: {
    readonly obtain: Readonly<
      Record<"blockrequests" | "addressblocks", number>
    >;
    readonly giveBack: Readonly<Record<"addressblocks", number>>;
  };
}

/** Permanent watches of each role, of which there is one per node but for the gateway. */
export interface Pattern {
  readonly coild: readonly WatchKind[];
  /** coild's for each namespace with Egresses that its pods name. */
  readonly egress: readonly WatchKind[];
  readonly router: readonly WatchKind[];
  readonly gateway: readonly WatchKind[];
  readonly controller: readonly WatchKind[];
  readonly cycle: BlockCycle;
  /** How coild looks at its node's blocks, and how often, in seconds. */
  readonly look: { readonly by: "list" | "get"; readonly everyS: number };
  /** How often it lists them besides. */
  readonly listS?: number;
  /** How often it reads the Service of each Egress that its pods name, if it does not watch them. */
  readonly servicesS?: number;
  /** Whether a watch begins with all objects, so that there is no list. */
  readonly streams: boolean;
  /** Whether each change of any pool's status lets nodes ask again that were refused a block. */
  readonly forgetsRefusals: boolean;
  /** Each gateway writes its entry in an Egress' status so often at rest, and the controller the number of clients at most so often. */
  readonly egressStatus: {
    readonly gatewayS: number;
    readonly controllerS: number;
  };
  /** A block that is not needed returns after about so long, at random within this part of it; and so late in an ample pool: a large one of which 35 % are free. */
  readonly giveBack: {
    readonly afterMs: number;
    readonly ampleMs: number;
    readonly jitter: number;
  };
  /** Controllers with caches: the leader, and a standby that has them too. */
  readonly controllers: number;
  /** Of each lease: the leader writes it, and the standby reads it, once in so many seconds; left out where it was not counted. */
  readonly lease?: {
    readonly leases: number;
    readonly renewS: number;
    readonly waitS: number;
  };
  /** A pool's status is written so long after a block has changed, or which addresses pods have, if it says that. */
  readonly poolStatus: {
    readonly afterMs: number;
    readonly countsPods: boolean;
  };
  /** Delays of coild's watches after a failure. */
  readonly backoff: {
    readonly initialMs: number;
    readonly maxMs: number;
    readonly jitter: number;
  };
}

const kind = (type: ResourceType<unknown>, by: Reach): WatchKind => ({
  type,
  by,
});

const NODES_OWN = [
  kind(PODS, "node"),
  kind(NODES, "name"),
  kind(NAMESPACES, "all"),
  kind(ADDRESS_POOLS, "all"),
];
const CONTROLLER = [
  ADDRESS_POOLS,
  ADDRESS_BLOCKS,
  BLOCK_REQUESTS,
  NODES,
  EGRESSES,
].map((type) => kind(type, "all"));

/** A request and its answer, the block, and its way back: create, answer and delete; delete and patch. */
const WRITES = {
  obtain: { blockrequests: 3, addressblocks: 1 },
  giveBack: { addressblocks: 2 },
};
const NOW: Pattern = {
  coild: NODES_OWN,
  egress: [EGRESSES, ENDPOINT_SLICES].map((type) => kind(type, "namespace")),
  router: [kind(ADDRESS_BLOCKS, "all")],
  gateway: [kind(EGRESS_CLIENT_SLICES, "namespace")],
  controller: [
    ...CONTROLLER,
    kind(PODS, "label"),
    kind(PODS, "all"),
    kind(NAMESPACES, "all"),
    kind(EGRESS_CLIENT_SLICES, "all"),
    ...[DEPLOYMENTS, SERVICES, POD_DISRUPTION_BUDGETS].map((type) =>
      kind(type, "label")
    ),
    // Of the bindings of the cluster, two names.
    ...[
      SERVICE_ACCOUNTS,
      ROLE_BINDINGS,
      CLUSTER_ROLE_BINDINGS,
      CLUSTER_ROLE_BINDINGS,
    ].map((type) => kind(type, "name")),
  ],
  cycle: { reads: { obtain: 2, refuse: 1, giveBack: 1 }, writes: WRITES },
  look: { by: "get", everyS: 300 },
  listS: 3_600,
  servicesS: 300,
  streams: true,
  forgetsRefusals: false,
  // At rest a gateway's entry changes only by the nodes that probe it, and no Egress here has gatewaySelection Direct.
  egressStatus: { gatewayS: Infinity, controllerS: 60 },
  giveBack: { afterMs: 3_600_000, ampleMs: 4 * 3_600_000, jitter: 1 },
  controllers: 2,
  lease: { leases: 2, renewS: 2, waitS: 0.55 },
  poolStatus: { afterMs: 15_000, countsPods: true },
  backoff: { initialMs: 1_000, maxMs: 30_000, jitter: 1 },
};

export const PATTERNS: Readonly<
  Record<"before" | "now" | "withoutRouters", Pattern>
> = {
  /** As at commit 5efa5f9. */
  before: {
    coild: [
      ...NODES_OWN,
      kind(ADDRESS_BLOCKS, "label"),
      kind(BLOCK_REQUESTS, "label"),
      kind(EGRESSES, "all"),
      kind(SERVICES, "label"),
      kind(ENDPOINT_SLICES, "label"),
    ],
    egress: [],
    router: [kind(ADDRESS_BLOCKS, "all"), kind(NODES, "all")],
    gateway: [kind(PODS, "all")],
    controller: [...CONTROLLER, kind(PODS, "label")],
    cycle: { reads: { obtain: 3, refuse: 3, giveBack: 3 }, writes: WRITES },
    look: { by: "list", everyS: 300 },
    streams: false,
    forgetsRefusals: true,
    egressStatus: { gatewayS: 10, controllerS: 0 },
    giveBack: { afterMs: 30_000, ampleMs: 30_000, jitter: 0 },
    controllers: 1,
    poolStatus: { afterMs: 400, countsPods: false },
    backoff: { initialMs: 200, maxMs: 10_000, jitter: 0.5 },
  },
  now: NOW,
  /** A routing daemon has the routes from its neighbours. */
  withoutRouters: { ...NOW, router: [] },
};

/** With coil-router, where empty blocks stay on their nodes for about so many hours: `--block-return-delay` of coild. */
export function returningAfter(hours: number): Pattern {
  const afterMs = 3_600_000 * hours;
  const giveBack = { ...NOW.giveBack, afterMs, ampleMs: afterMs };
  return { ...NOW, giveBack };
}

/** Path and query of a node's watch; `namespace` is that of a watch by namespace. */
export function watchUri(
  { type, by }: WatchKind,
  { node, namespace = "default" }: {
    readonly node: string;
    readonly namespace?: string;
  },
): string {
  const query = new URLSearchParams({
    watch: "1",
    resourceVersion: "0",
    timeoutSeconds: "3600",
  });
  if (by === "name") query.set("fieldSelector", `metadata.name=${node}`);
  if (by === "node") query.set("fieldSelector", `spec.nodeName=${node}`);
  if (by === "label") query.set("labelSelector", `${NODE_LABEL}=${node}`);
  const path = resourcePath(type, by === "namespace" ? { namespace } : {});
  return `${path}?${query}`;
}
