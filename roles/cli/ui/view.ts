import type { AddressRow, BlockRow } from "../../../lib/ipam/audit/mod.ts";
import {
  conditionOf,
  type Egress,
  type EgressClientSlice,
} from "../../../lib/api/mod.ts";
import { nameText } from "../../../lib/names/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import {
  type ClientRow,
  clientRows,
  type GatewayRow,
  gatewayRows,
  type SourceRow,
  sourceRows,
} from "../egress/rows.ts";
import type { PoolRow } from "../ipam/rows.ts";
import {
  type BlockMap,
  type EniMap,
  type MapSource,
  poolMaps,
  positionsOf,
  type SubnetMap,
} from "../map/pool_map.ts";
import { problemsOf } from "../status/problems.ts";
import { reportOf, type StatusReport } from "../status/report.ts";
import type { Part, Snapshot } from "../status/snapshot.ts";

/** Entry `status`. */
export interface StatusView extends StatusReport {
  /** Host and port of the API server. */
  readonly cluster: string;
}

/** Entry `contact`: whether what is shown is current. */
export interface ContactView {
  /** RFC 3339 time since when the API server does not answer. */
  readonly lostSince?: string;
}

/** Entry `pool/NAME`. */
export interface PoolView {
  readonly row: PoolRow;
  readonly subnets: readonly SubnetMap[];
  /** Of pool `vpc`, which has no subnets. */
  readonly enis?: readonly EniMap[] | undefined;
  /** Pods with addresses of the pool that are in none of its blocks. */
  readonly outside: readonly AddressRow[];
}

/** A pod with addresses of a block. */
export interface HolderView extends AddressRow {
  /** Positions of its addresses in the block. */
  readonly places: readonly number[];
}

/** Entry `block/NAME`. */
export interface BlockView extends BlockRow {
  /** Positions that spec.reserved of the pool keeps from pods. */
  readonly reserved: readonly number[];
  readonly holders: readonly HolderView[];
}

/** Entry `node/NAME`. */
export interface NodeView {
  readonly name: string;
  readonly networkUnavailable?: string | undefined;
  /** Its pod of coild, if there is one. */
  readonly coild?: Part | undefined;
}

/** Entry `egress/NAMESPACE/NAME`. */
export interface EgressView {
  /** `namespace/name`. */
  readonly name: string;
  readonly destinations: readonly string[];
  /** Whether its condition Ready is True, and why not. */
  readonly isReady: boolean;
  readonly message: string;
  readonly clients: readonly ClientRow[];
  readonly gateways: readonly GatewayRow[];
  readonly sources: readonly SourceRow[];
}

/** Everything that `coil status` shows, and the nodes. Pure. */
export function statusEntries(
  snapshot: Snapshot,
  { cluster, now }: { readonly cluster: string; readonly now: Date },
): Map<string, string> {
  const report = reportOf(snapshot, problemsOf(snapshot, now));
  const status: StatusView = { ...report, cluster };
  const { nodes = [], parts = [] } = snapshot;
  const coilds = new Map(
    parts.filter(({ component }) => component.endsWith("coild"))
      .map((part) => [part.node, part]),
  );
  return entriesOf([
    ["status", status],
    ...nodes.map((node): [string, NodeView] => [
      `node/${node.name}`,
      { ...node, coild: coilds.get(node.name) },
    ]),
  ]);
}

/** Pools and blocks, with the pods that hold their addresses. Pure. */
export function poolEntries(source: MapSource): Map<string, string> {
  const maps = poolMaps(source);
  return entriesOf([
    ...maps.map(({ pool: row, subnets, enis, outside }): [string, PoolView] => [
      `pool/${row.name}`,
      { row, subnets, enis, outside },
    ]),
    ...maps.flatMap(({ blocks }) => blocks).map((
      block,
    ): [string, BlockView] => [`block/${block.name}`, blockView(block)]),
  ]);
}

function blockView({ addresses, ...block }: BlockMap): BlockView {
  const holders = addresses.map((row) => ({
    ...row,
    places: positionsOf(block, row).map(Number),
  }));
  return { ...block, holders };
}

export interface EgressSource {
  readonly egresses: readonly Egress[];
  readonly slices: readonly EgressClientSlice[];
  readonly gateways: readonly V1Pod[];
}

/** Egresses with clients, gateways and sources. Pure. */
export function egressEntries(source: EgressSource): Map<string, string> {
  const all = gatewayRows(source.gateways, source.egresses);
  const clients = Map.groupBy(clientRows(source.slices), (row) => row.egress);
  const gateways = Map.groupBy(all, (row) => row.egress);
  const sources = Map.groupBy(sourceRows(all), (row) => row.egress);
  return entriesOf(
    source.egresses.map(({ metadata, spec, status }): [string, EgressView] => {
      const { namespace = "", name: own = "" } = metadata;
      const name = nameText({ namespace, name: own });
      const ready = conditionOf(status?.conditions, "Ready");
      return [`egress/${name}`, {
        name,
        destinations: spec.destinations,
        isReady: ready?.status === "True",
        message: ready?.message ?? "coil-controller has not looked at it",
        clients: clients.get(name) ?? [],
        gateways: gateways.get(name) ?? [],
        sources: sources.get(name) ?? [],
      }];
    }),
  );
}

function entriesOf(
  entries: readonly (readonly [string, object])[],
): Map<string, string> {
  return new Map(entries.map(([key, view]) => [key, JSON.stringify(view)]));
}
