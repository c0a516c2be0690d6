import type { Request } from "../../message/request.ts";
import {
  elementsAdd,
  elementsRemove,
  EVERYBODY,
  type SetName,
  tableAdd,
  tableDelete,
} from "../wire/requests.ts";
import { elementId } from "../wire/set_key.ts";
import {
  chainAdd,
  counterAdd,
  type PlannedSet,
  rulesAdd,
  rulesRemove,
  setAdd,
  type TablePlan,
  tableRequests,
} from "./plan.ts";
import { refillSet } from "./new_table.ts";
import { partsOf, type TableReader } from "./reader.ts";
import { rulesAgree, TableState } from "./state.ts";

/** From so many elements too much on a set is filled again. Fewer than are listed of a set that has more than are. */
const MANY_ELEMENTS = 1_000;

/** Changes that make the kernel's table the plan's. */
export interface TableChanges {
  /** Nothing where it is already. */
  readonly requests: readonly Request[];
  /** The generation of the ruleset that was compared with. */
  readonly generation: number | undefined;
}

/**
 * Compares the kernel's table with a plan. Where the table has nothing that
 * the plan does not have, only what differs is changed: counters go on
 * counting, and chains keep their policies. Otherwise all is recreated.
 *
 * `unguarded` changes hold even if another program changes the table in the meantime.
 */
export async function compareTable(
  plan: TablePlan,
  reader: TableReader,
  options: { readonly unguarded?: boolean } = {},
): Promise<TableChanges> {
  const state = new TableState(plan);
  await reader.ask(state.requests());
  const { generation } = state;
  const unguarded = options.unguarded === true;
  if (state.fits) {
    const requests = await differences(plan, { state, reader });
    if (requests !== undefined && (requests.length === 0 || !unguarded)) {
      return { requests, generation };
    }
  }
  const requests = tableRequests(plan, { counters: state.counters });
  if (state.exists || unguarded) {
    requests.unshift(tableAdd(plan.name), tableDelete(plan.name));
  }
  return { requests, generation };
}

/** Things are made before the rules that name them. Undefined when there is something that cannot be changed into what is planned. */
async function differences(
  plan: TablePlan,
  kernel: { readonly state: TableState; readonly reader: TableReader },
): Promise<Request[] | undefined> {
  const { state, reader } = kernel;
  const table = plan.name;
  const requests: Request[] = [];
  for (const name of plan.counters) {
    const value = undefined;
    if (state.counters.has(name)) continue;
    requests.push(counterAdd(table, { name, value }));
  }
  for (const set of plan.sets) {
    if (!state.sets.has(set)) {
      requests.push(...setAdd(plan, set));
      continue;
    }
    if (set.isDynamic) continue;
    const target = { table, set: set.name };
    const atMost = partsOf(set.elements.size);
    const withValues = set.value !== undefined;
    const listed = await reader.listElements(target, { atMost, withValues });
    if (listed === EVERYBODY) return undefined;
    requests.push(...elementChanges(plan, set, listed));
  }
  const planned = plan.chains.flatMap(({ rules }) => rules).length;
  const rules = await reader.listRules(table, { planned });
  for (const chain of plan.chains) {
    const there = state.chains.has(chain);
    if (there && rulesAgree(chain, rules)) continue;
    requests.push(
      there ? rulesRemove(table, chain) : chainAdd(table, chain),
      ...rulesAdd(table, chain),
    );
  }
  return requests;
}

function elementChanges(
  plan: TablePlan,
  set: PlannedSet,
  listed: readonly Uint8Array[],
): Request[] {
  const change = difference(set, listed);
  // A pod with NET_ADMIN can add any number to a set of ours.
  const isMuch = change.remove.length > MANY_ELEMENTS;
  // A map takes another value for a key only when that is gone.
  const isMap = set.value !== undefined &&
    change.add.length + change.remove.length > 0;
  return isMuch || isMap
    ? refillSet(plan, set)
    : changeRequests(change, { table: plan.name, set: set.name });
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
