import { formatAge } from "../../../lib/api/mod.ts";
import type { AddressRow, BlockRow } from "../../../lib/ipam/audit/mod.ts";
import type { PoolRow } from "./rows.ts";
import type { Column } from "../base/table.ts";

export function poolColumns(now: Date): readonly Column<PoolRow>[] {
  return [
    { header: "POOL", value: (row) => row.name },
    { header: "STATE", value: (row) => row.state },
    { header: "BLOCK SIZE", value: (row) => row.blockSize },
    { header: "BLOCKS", value: (row) => row.blocks?.total },
    { header: "FREE", value: (row) => row.blocks?.free },
    { header: "NODES", value: (row) => row.nodes },
    { header: "IPV4 TOTAL", value: (row) => row.ipv4?.total },
    { header: "IPV4 FREE", value: (row) => row.ipv4?.free },
    { header: "IPV6 TOTAL", value: (row) => row.ipv6?.total, wide: true },
    { header: "IPV6 FREE", value: (row) => row.ipv6?.free, wide: true },
    { header: "SUBNETS", value: (row) => row.subnets.join(","), wide: true },
    { header: "AGE", value: (row) => formatAge(row.created, now) },
  ];
}

export function blockColumns(now: Date): readonly Column<BlockRow>[] {
  return [
    { header: "BLOCK", value: (row) => row.name },
    { header: "POOL", value: (row) => row.pool },
    { header: "NODE", value: (row) => row.node },
    { header: "IPV4", value: (row) => row.ipv4 },
    { header: "IPV6", value: (row) => row.ipv6 },
    { header: "USED", value: (row) => row.used },
    { header: "SIZE", value: (row) => row.size },
    { header: "STATE", value: (row) => row.state },
    { header: "INDEX", value: (row) => row.index, wide: true },
    { header: "AGE", value: (row) => formatAge(row.created, now) },
  ];
}

export function addressColumns(now: Date): readonly Column<AddressRow>[] {
  return [
    { header: "IPV4", value: (row) => row.ipv4 },
    { header: "IPV6", value: (row) => row.ipv6 },
    { header: "POD", value: (row) => `${row.namespace}/${row.pod}` },
    { header: "NODE", value: (row) => row.node },
    { header: "BLOCK", value: (row) => row.block },
    { header: "POOL", value: (row) => row.pool, wide: true },
    { header: "STATE", value: (row) => row.state },
    { header: "AGE", value: (row) => formatAge(row.since, now) },
  ];
}
