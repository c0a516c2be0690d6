import type { Attributes } from "../../message/message_reader.ts";
import type { Request } from "../../message/request.ts";
import { includesTree } from "../wire/attributes.ts";
import {
  NFT_MSG_GETCHAIN,
  NFT_MSG_GETGEN,
  NFT_MSG_GETOBJ,
  NFT_MSG_GETSET,
  NFT_MSG_GETTABLE,
  NFT_OBJECT_COUNTER,
  NFT_SET_MAP,
  NFTA_CHAIN_NAME,
  NFTA_COUNTER_BYTES,
  NFTA_COUNTER_PACKETS,
  NFTA_GEN_ID,
  NFTA_OBJ_DATA,
  NFTA_OBJ_NAME,
  NFTA_OBJ_TYPE,
  NFTA_OWNER_TABLE,
  NFTA_RULE_CHAIN,
  NFTA_RULE_USERDATA,
  NFTA_SET_DESC,
  NFTA_SET_DESC_SIZE,
  NFTA_SET_FLAGS,
  NFTA_SET_NAME,
  NFTA_TABLE_FLAGS,
  NFTA_TABLE_NAME,
  NFTA_TABLE_USE,
} from "../wire/constants.ts";
import { nftRequest, tableText } from "../wire/requests.ts";
import type {
  NftCounter,
  PlannedChain,
  PlannedObject,
  PlannedSet,
  TablePlan,
} from "./plan.ts";

/** The kernel's state of a planned table. Filled in by the answers to `requests`. */
export class TableState {
  readonly #plan: TablePlan;
  /** The generation of the ruleset that this is of. */
  generation: number | undefined;
  /** Whether there is such a table at all. */
  exists = false;
  /** What the plan's counters have counted so far, of those that there are. */
  readonly counters: Map<string, NftCounter> = new Map();
  /** The plan's sets that there are just so, but for their elements. */
  readonly sets: Set<PlannedObject> = new Set();
  /** The plan's chains that there are just so, but for their rules. */
  readonly chains: Set<PlannedObject> = new Set();
  /** Chains, sets, counters and all else that the table has. */
  #objects = 0;
  #flags = 0;

  constructor(plan: TablePlan) {
    this.#plan = plan;
  }

  /** Whether the kernel's table has nothing that the plan does not have just so, but for rules and elements. */
  get fits(): boolean {
    return this.exists && this.#flags === 0 &&
      this.counters.size + this.sets.size + this.chains.size === this.#objects;
  }

  /** What to ask the kernel: the generation first, so that what comes after is not older. */
  requests(): Request[] {
    const { name, counters, sets, chains } = this.#plan;
    return [
      generationGet(name, (generation) => this.generation = generation),
      tableGet(name, (answer) => {
        this.exists = true;
        this.#flags = answer.u32Be(NFTA_TABLE_FLAGS) ?? 0;
        this.#objects = answer.u32Be(NFTA_TABLE_USE) ?? 0;
      }),
      ...counters.map((counter) => this.#counterGet(counter)),
      ...sets.map((set) => this.#setGet(set)),
      ...chains.map((chain) => this.#chainGet(chain)),
    ];
  }

  #counterGet(counter: string): Request {
    return nftRequest({
      message: NFT_MSG_GETOBJ,
      op: `get counter "${counter}" of ${tableText(this.#plan.name)}`,
      tree: [
        [NFTA_OWNER_TABLE, this.#plan.name],
        [NFTA_OBJ_NAME, counter],
        [NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER],
      ],
      onAnswer: (answer) => {
        const found = parseCounter(answer);
        if (found === undefined) return;
        this.counters.set(found.name, found.value);
      },
    });
  }

  #setGet(set: PlannedSet): Request {
    return setGet({ table: this.#plan.name, set: set.name }, (answer) => {
      if (
        (set.isDynamic || isPlain(answer, set)) &&
        includesTree(answer, set.tree)
      ) {
        this.sets.add(set);
      }
    });
  }

  #chainGet(chain: PlannedObject): Request {
    return nftRequest({
      message: NFT_MSG_GETCHAIN,
      op: `get chain "${chain.name}" of ${tableText(this.#plan.name)}`,
      tree: [
        [NFTA_OWNER_TABLE, this.#plan.name],
        [NFTA_CHAIN_NAME, chain.name],
      ],
      onAnswer: (answer) => {
        if (includesTree(answer, chain.tree)) this.chains.add(chain);
      },
    });
  }
}

/** Whether a set has no flags but that of a map, and room for any number of elements. */
function isPlain(set: Attributes, { value }: PlannedSet): boolean {
  const limit = set.nested(NFTA_SET_DESC)?.u32Be(NFTA_SET_DESC_SIZE) ?? 0;
  const flags = value === undefined ? 0 : NFT_SET_MAP;
  return (set.u32Be(NFTA_SET_FLAGS) ?? 0) === flags && limit === 0;
}

/** Asks for the generation of all tables, which every commit raises, on behalf of one. */
function generationGet(
  table: string,
  onGeneration: (generation: number) => void,
): Request {
  return nftRequest({
    message: NFT_MSG_GETGEN,
    op: `read ${tableText(table)}`,
    tree: [],
    onAnswer(answer) {
      const generation = answer.u32Be(NFTA_GEN_ID);
      if (generation !== undefined) onGeneration(generation);
    },
  });
}

/** Asks for a table. */
export function tableGet(
  table: string,
  onAnswer: (answer: Attributes) => void,
): Request {
  return nftRequest({
    message: NFT_MSG_GETTABLE,
    op: `get ${tableText(table)}`,
    tree: [[NFTA_TABLE_NAME, table]],
    onAnswer,
  });
}

/** Asks for a set. */
export function setGet(
  target: { readonly table: string; readonly set: string },
  onAnswer: (answer: Attributes) => void,
): Request {
  const { table, set } = target;
  return nftRequest({
    message: NFT_MSG_GETSET,
    op: `get set "${set}" of ${tableText(table)}`,
    tree: [[NFTA_OWNER_TABLE, table], [NFTA_SET_NAME, set]],
    onAnswer,
  });
}

/** Reads a counter from an answer about objects; undefined when it is another kind of object. */
export function parseCounter(
  answer: Attributes,
): { readonly name: string; readonly value: NftCounter } | undefined {
  const name = answer.string(NFTA_OBJ_NAME);
  const data = answer.nested(NFTA_OBJ_DATA);
  if (answer.u32Be(NFTA_OBJ_TYPE) !== NFT_OBJECT_COUNTER) return undefined;
  if (name === undefined || data === undefined) return undefined;
  const packets = data.u64Be(NFTA_COUNTER_PACKETS) ?? 0n;
  return {
    name,
    value: { packets, bytes: data.u64Be(NFTA_COUNTER_BYTES) ?? 0n },
  };
}

/** Whether the rules, as the kernel lists them, are those of the chain in the same order. */
export function rulesAgree(
  chain: PlannedChain,
  rules: readonly Attributes[],
): boolean {
  const found = rules.filter((rule) =>
    rule.string(NFTA_RULE_CHAIN) === chain.name
  );
  return found.length === chain.rules.length &&
    chain.rules.every(({ tree }, index) => {
      const attributes = found[index];
      const commented = tree.some(([type]) => type === NFTA_RULE_USERDATA);
      return attributes !== undefined &&
        attributes.flag(NFTA_RULE_USERDATA) === commented &&
        includesTree(attributes, tree);
    });
}
