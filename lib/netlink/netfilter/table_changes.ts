import type { Request } from "../request.ts";
import {
  elementsAdd,
  elementsRemove,
  type SetName,
  tableAdd,
  tableDelete,
} from "./requests.ts";
import { elementId } from "./set_key.ts";
import {
  type PlannedSet,
  type TablePlan,
  tableRequests,
} from "./table_plan.ts";
import type { TableReader } from "./table_reader.ts";
import { rulesAgree, TableState } from "./table_state.ts";

/** What makes the kernel's table the plan's. */
export interface TableChanges {
  /** Nothing where it is already. */
  readonly requests: readonly Request[];
  /** The generation of the ruleset that was compared with. */
  readonly generation: number | undefined;
}

/**
 * Compares the kernel's table with a plan: nothing has to be done, or elements
 * of sets change, or all is made anew. `unguarded` changes hold even if
 * somebody else makes a table of the name meanwhile.
 */
export async function compareTable(
  plan: TablePlan,
  reader: TableReader,
  options: { readonly unguarded?: boolean } = {},
): Promise<TableChanges> {
  const state = new TableState(plan);
  await reader.ask(state.requests());
  const { generation } = state;
  if (state.agrees && rulesAgree(plan, await reader.listRules(plan.name))) {
    return { requests: await elementChanges(plan, reader), generation };
  }
  const requests = tableRequests(plan, state.counters);
  if (state.exists || options.unguarded === true) {
    requests.unshift(tableAdd(plan.name), tableDelete(plan.name));
  }
  return { requests, generation };
}

async function elementChanges(
  plan: TablePlan,
  reader: TableReader,
): Promise<Request[]> {
  const requests: Request[] = [];
  for (const set of plan.sets) {
    const target = { table: plan.name, set: set.name };
    const found = await reader.listElements(target);
    requests.push(...changeRequests(difference(set, found), target));
  }
  return requests;
}

function difference(
  { elements }: PlannedSet,
  listed: readonly Uint8Array[],
): ElementChanges {
  const found = new Map(listed.map((bytes) => [elementId(bytes), bytes]));
  return {
    add: [...elements].flatMap(([id, bytes]) => found.has(id) ? [] : [bytes]),
    remove: [...found].flatMap(([id, bytes]) =>
      elements.has(id) ? [] : [bytes]
    ),
  };
}

/** Elements of a set that come and go. */
export interface ElementChanges {
  readonly add: readonly Uint8Array[];
  readonly remove: readonly Uint8Array[];
}

/** What is removed is added before: the kernel refuses to remove what is not there. */
export function changeRequests(
  change: ElementChanges,
  target: SetName,
): Request[] {
  return [
    ...elementsAdd([...change.add, ...change.remove], target),
    ...elementsRemove(change.remove, target),
  ];
}
