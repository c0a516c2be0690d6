import { MessageWriter } from "../../message/message_writer.ts";
import type { Request } from "../../message/request.ts";
import type { NftTable } from "../model/model.ts";
import { tableText } from "../wire/requests.ts";
import { planTable, tableRequests } from "./plan.ts";

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

/** A request whose body is written now, not at each send. */
function written(request: Request): Request {
  const writer = new MessageWriter();
  request.write(writer);
  const body = writer.bytes().slice();
  return { ...request, write: (target) => target.raw(body) };
}
