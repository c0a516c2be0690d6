import { MessageWriter } from "../../message/message_writer.ts";
import type { Request } from "../../message/request.ts";
import type { NftTable } from "../model/model.ts";
import { elementsFlush, tableText } from "../wire/requests.ts";
import {
  fillSet,
  type PlannedSet,
  planTable,
  rulesAdd,
  rulesRemove,
  type TablePlan,
  tableRequests,
} from "./plan.ts";

/** A table that is ready to be sent, to as many namespaces as have none of its name. */
export interface NftNewTable {
  /** Completes "Cannot …". */
  readonly op: string;
  /** Makes the table, and is refused with EEXIST when there is one. */
  readonly requests: readonly Request[];
}

/**
 * Turns a table into what `NetfilterSocket.createTable()` sends. Most of the
 * work of making a table is this, and it is done once.
 *
 * @throws {TypeError} when the table contradicts itself
 */
export function prepareTable(table: NftTable): NftNewTable {
  const requests = tableRequests(planTable(table), { isNew: true });
  return {
    op: `create ${tableText(table.name)}`,
    requests: requests.map(written),
  };
}

/** New contents of some sets and chains of a table, ready to be sent, to as many namespaces as have these. */
export interface NftRefill {
  /** Completes "Cannot …". */
  readonly op: string;
  readonly requests: readonly Request[];
}

/**
 * Turns parts of a table into what `NetfilterSocket.refillTable()` sends, as
 * `prepareTable()` does with all of it.
 *
 * @throws {TypeError} when the table contradicts itself
 */
export function prepareRefill(
  table: NftTable,
  parts: {
    readonly sets: readonly string[];
    readonly chains: readonly string[];
  },
): NftRefill {
  const plan = planTable(table);
  const requests = [
    ...plan.sets.filter(({ name }) => parts.sets.includes(name))
      .flatMap((set) => refillSet(plan, set)),
    ...plan.chains.filter(({ name }) => parts.chains.includes(name))
      .flatMap((chain) => [
        rulesRemove(plan.name, chain),
        ...rulesAdd(plan.name, chain),
      ]),
  ];
  return {
    op: `refill ${tableText(table.name)}`,
    requests: requests.map(written),
  };
}

/** Replaces what is in a set. */
export function refillSet(
  { name: table }: TablePlan,
  set: PlannedSet,
): Request[] {
  return [elementsFlush({ table, set: set.name }), ...fillSet(table, set)];
}

/** A request whose body is written now, not at each send. */
function written(request: Request): Request {
  const writer = new MessageWriter();
  request.write(writer);
  const body = writer.bytes().slice();
  return { ...request, write: (target) => target.raw(body) };
}
