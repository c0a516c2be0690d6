import { CniError, ErrorCode } from "../../cni/mod.ts";
import type { Address } from "../../inet/mod.ts";
import {
  COORDINATOR_FIRST_NIC,
  COORDINATOR_NIC_PRIORITIES,
  COORDINATOR_TABLES,
} from "../../names/mod.ts";
import type { ResolvedMode } from "./mode.ts";
import type { Rule } from "../../netlink/mod.ts";
import {
  indexOf,
  isOurs,
  type SideState,
  sourcesOf,
  sourceTexts,
} from "../state/state.ts";

/** The table of a pod's interface: 100 and the interface's number. */
export interface NicTable {
  readonly table: number;
  /** The priority of the rules that look it up. */
  readonly priority: number;
}

/** The table with a number. */
function nicTable(number: number): NicTable {
  return {
    table: COORDINATOR_TABLES + number,
    priority: COORDINATOR_NIC_PRIORITIES + number,
  };
}

/**
 * The table of the pod's first interface. In underlay mode table 100 leads to
 * the host, so that one has the last number.
 */
export function firstNicTable(mode: ResolvedMode): NicTable {
  return nicTable(mode === "overlay" ? 0 : COORDINATOR_FIRST_NIC);
}

/** Whether a rule sends packets from an address to the table of an interface, and the coordinator made it. */
export function isNicRule(rule: Rule): boolean {
  const number = rule.table - COORDINATOR_TABLES;
  return isOurs(rule) && rule.source !== undefined && number >= 0 &&
    rule.priority === COORDINATOR_NIC_PRIORITIES + number;
}

/**
 * The table of an interface that is not the first: the one that a rule of its
 * addresses looks up, else the one with our routes by it, else the lowest that
 * is free. Nothing is counted, so interfaces may come and go in any order.
 *
 * @throws {CniError} with code 11 when none is free
 */
export function findNicTable(
  pod: SideState,
  nic: string,
  addresses: readonly Address[],
): NicTable {
  const index = indexOf(pod, nic);
  const own = sourceTexts(addresses);
  for (let number = 1; number < COORDINATOR_FIRST_NIC; number++) {
    const candidate = nicTable(number);
    if (isTableOf(pod, { ...candidate, index, own })) return candidate;
  }
  const inPod = sourcesOf(pod);
  for (let number = 1; number < COORDINATOR_FIRST_NIC; number++) {
    const candidate = nicTable(number);
    if (isFree(pod, { ...candidate, inPod })) return candidate;
  }
  throw new CniError(`no route table is free for interface "${nic}"`, {
    code: ErrorCode.TRY_AGAIN_LATER,
    details: `the pod uses all tables from ${COORDINATOR_TABLES + 1} to ${
      COORDINATOR_TABLES + COORDINATOR_FIRST_NIC - 1
    }: give it fewer interfaces, or set tunePodRoutes to false`,
  });
}

function isTableOf(
  { rules, routes }: SideState,
  { table, index, own }: NicTable & {
    readonly index: number | undefined;
    readonly own: ReadonlySet<string>;
  },
): boolean {
  const hasRule = rules.some((rule) =>
    rule.table === table && isNicRule(rule) && own.has(String(rule.source))
  );
  return hasRule ||
    routes.some((route) =>
      route.table === table && isOurs(route) && route.index === index
    );
}

/** Also free is a table left by an interface that is gone: no interface has the source of its rules, and it has no default route. */
function isFree(
  pod: SideState,
  { table, priority, inPod }: NicTable & {
    readonly inPod: ReadonlySet<string>;
  },
): boolean {
  return pod.rules.every((rule) =>
    rule.table !== table && rule.priority !== priority ||
    isNicRule(rule) && !inPod.has(String(rule.source))
  ) && pod.routes.every((route) =>
    route.table !== table || isOurs(route) && route.destination !== undefined
  );
}
