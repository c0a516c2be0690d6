import { NLM_F_APPEND, NLM_F_CREATE } from "../../message/constants.ts";
import type { Request } from "../../message/request.ts";
import { type AttributeTree, bigEndian64 } from "../wire/attributes.ts";
import {
  NF_ACCEPT,
  NF_DROP,
  NFT_MSG_DELRULE,
  NFT_MSG_NEWCHAIN,
  NFT_MSG_NEWOBJ,
  NFT_MSG_NEWRULE,
  NFT_MSG_NEWSET,
  NFT_OBJECT_COUNTER,
  NFT_SET_EVAL,
  NFT_SET_MAP,
  NFT_SET_TIMEOUT,
  NFTA_CHAIN_HOOK,
  NFTA_CHAIN_NAME,
  NFTA_CHAIN_POLICY,
  NFTA_CHAIN_TYPE,
  NFTA_COUNTER_BYTES,
  NFTA_COUNTER_PACKETS,
  NFTA_HOOK_HOOKNUM,
  NFTA_HOOK_PRIORITY,
  NFTA_OBJ_DATA,
  NFTA_OBJ_NAME,
  NFTA_OBJ_TYPE,
  NFTA_OWNER_TABLE,
  NFTA_RULE_CHAIN,
  NFTA_RULE_EXPRESSIONS,
  NFTA_RULE_USERDATA,
  NFTA_SET_DATA_LEN,
  NFTA_SET_DATA_TYPE,
  NFTA_SET_DESC,
  NFTA_SET_DESC_SIZE,
  NFTA_SET_FLAGS,
  NFTA_SET_ID,
  NFTA_SET_KEY_LEN,
  NFTA_SET_KEY_TYPE,
  NFTA_SET_NAME,
  NFTA_SET_TIMEOUT,
  NFTA_SET_USERDATA,
} from "../wire/constants.ts";
import { expressionTree } from "../wire/instruction.ts";
import { formatRule } from "../text/format_rule.ts";
import type { NftChain, NftRule, NftSet, NftTable } from "../model/model.ts";
import {
  elementsAdd,
  nftRequest,
  tableAdd,
  tableText,
} from "../wire/requests.ts";
import { encodeRule } from "../wire/rule_encoder.ts";
import {
  elementId,
  encodeElement,
  keyByteOrder,
  keySize,
  keyTypeId,
} from "../wire/set_key.ts";
import { checkTable } from "./check.ts";

/** Values of a counter. */
export interface NftCounter {
  /** How many packets. */
  readonly packets: bigint;
  /** How many bytes, from the IP header on. */
  readonly bytes: bigint;
}

/** A named thing in a table: what identifies it, to be found again, and what is added when it is made. */
export interface PlannedObject {
  readonly name: string;
  readonly tree: AttributeTree;
}

/** A table in the kernel's terms. */
export interface TablePlan {
  readonly name: string;
  readonly counters: readonly string[];
  readonly sets: readonly PlannedSet[];
  readonly chains: readonly PlannedChain[];
}

/** A set with its elements. */
export interface PlannedSet extends PlannedObject {
  readonly key: NftSet["key"];
  /** Present in a map. */
  readonly value?: NftSet["value"];
  /** Whether rules fill it. */
  readonly isDynamic: boolean;
  /** By their `elementId()`; in a map, keys with the values behind them. */
  readonly elements: ReadonlyMap<string, Uint8Array>;
}

/** A chain with its rules. */
export interface PlannedChain extends PlannedObject {
  readonly rules: readonly PlannedRule[];
}

export interface PlannedRule {
  /** For errors. */
  readonly rule: NftRule;
  readonly tree: AttributeTree;
}

/**
 * Turns a table into the kernel's terms.
 *
 * @throws {TypeError} when the table contradicts itself
 */
export function planTable(table: NftTable): TablePlan {
  checkTable(table);
  const { name, counters, sets, chains } = table;
  return {
    name,
    counters,
    sets: sets.map((set) => planSet(set, name)),
    chains: chains.map((chain) => planChain(chain, name)),
  };
}

function planSet(set: NftSet, table: string): PlannedSet {
  const elements = new Map<string, Uint8Array>();
  for (const element of set.elements) {
    const bytes = encodeElement(element, fieldsOf(set));
    elements.set(elementId(bytes), bytes);
  }
  return {
    name: set.name,
    key: set.key,
    value: set.value,
    isDynamic: set.dynamic !== undefined,
    elements,
    tree: [
      [NFTA_OWNER_TABLE, table],
      [NFTA_SET_NAME, set.name],
      [NFTA_SET_KEY_TYPE, keyTypeId(set.key)],
      [NFTA_SET_KEY_LEN, keySize(set.key)],
      ...mapTree(set),
      ...dynamicTree(set),
    ],
  };
}

/** The types of an element's values. */
function fieldsOf({ key, value }: NftSet): NftSet["key"] {
  return value === undefined ? key : [...key, value];
}

function mapTree({ value }: NftSet): AttributeTree {
  if (value === undefined) return [];
  return [
    [NFTA_SET_FLAGS, NFT_SET_MAP],
    [NFTA_SET_DATA_TYPE, keyTypeId([value])],
    [NFTA_SET_DATA_LEN, keySize([value])],
  ];
}

function dynamicTree({ dynamic }: NftSet): AttributeTree {
  if (dynamic === undefined) return []; // a flag of 0 is not listed
  const { size, timeoutMs } = dynamic;
  const desc = [
    NFTA_SET_DESC,
    [[NFTA_SET_DESC_SIZE, size]],
  ] as const;
  if (timeoutMs === undefined) return [[NFTA_SET_FLAGS, NFT_SET_EVAL], desc];
  return [
    [NFTA_SET_FLAGS, NFT_SET_EVAL | NFT_SET_TIMEOUT],
    desc,
    [NFTA_SET_TIMEOUT, bigEndian64(BigInt(timeoutMs))],
  ];
}

/** NF_INET_… of `<linux/netfilter.h>`. */
const HOOKS: Readonly<Record<NftChain["hook"], number>> = {
  prerouting: 0,
  input: 1,
  forward: 2,
  output: 3,
  postrouting: 4,
};

function planChain(chain: NftChain, table: string): PlannedChain {
  const { name, type, hook, priority, policy, rules } = chain;
  return {
    name,
    tree: [
      [NFTA_OWNER_TABLE, table],
      [NFTA_CHAIN_NAME, name],
      [NFTA_CHAIN_TYPE, type],
      [NFTA_CHAIN_POLICY, policy === "accept" ? NF_ACCEPT : NF_DROP],
      [NFTA_CHAIN_HOOK, [
        [NFTA_HOOK_HOOKNUM, HOOKS[hook]],
        [NFTA_HOOK_PRIORITY, priority],
      ]],
    ],
    rules: rules.map((rule) => planRule(rule, { table, chain: name })),
  };
}

function planRule(
  rule: NftRule,
  owner: { readonly table: string; readonly chain: string },
): PlannedRule {
  return {
    rule,
    tree: [
      [NFTA_OWNER_TABLE, owner.table],
      [NFTA_RULE_CHAIN, owner.chain],
      [NFTA_RULE_EXPRESSIONS, { list: encodeRule(rule).map(expressionTree) }],
      ...rule.comment === undefined
        ? []
        : [[NFTA_RULE_USERDATA, commentData(rule.comment)] as const],
    ],
  };
}

/** NFTNL_UDATA_RULE_COMMENT of libnftnl's udata.h: type, length, text with a NUL. */
function commentData(comment: string): Uint8Array {
  const text = new TextEncoder().encode(`${comment}\0`);
  return Uint8Array.of(0, text.byteLength, ...text);
}

/** NFTNL_UDATA_SET_KEYBYTEORDER and …_DATABYTEORDER of libnftnl's udata.h: from them `nft list` knows the elements' byte order. */
function byteOrderData({ key, value }: PlannedSet): Uint8Array {
  const orders = [key, ...value === undefined ? [] : [[value]]];
  return Uint8Array.from(
    orders.flatMap((types, i) => [i, 4, keyByteOrder(types), 0, 0, 0]),
  );
}

/** The requests that make the whole table where there is none; counters begin with the given values. */
export function tableRequests(
  plan: TablePlan,
  { counters = new Map(), isNew = false }: {
    readonly counters?: ReadonlyMap<string, NftCounter>;
    /** Refused with EEXIST when there is a table of the name. */
    readonly isNew?: boolean;
  } = {},
): Request[] {
  const table = plan.name;
  return [
    tableAdd(table, { isNew }),
    ...plan.counters.map((name) =>
      counterAdd(table, { name, value: counters.get(name) })
    ),
    ...plan.sets.flatMap((set) => setAdd(plan, set)),
    ...plan.chains.map((chain) => chainAdd(table, chain)),
    ...plan.chains.flatMap((chain) => rulesAdd(table, chain)),
  ];
}

/** Makes a counter. */
export function counterAdd(
  table: string,
  counter: { readonly name: string; readonly value: NftCounter | undefined },
): Request {
  const { name, value } = counter;
  return nftRequest({
    message: NFT_MSG_NEWOBJ,
    flags: NLM_F_CREATE,
    op: `add counter "${name}" to ${tableText(table)}`,
    tree: [
      [NFTA_OWNER_TABLE, table],
      [NFTA_OBJ_NAME, name],
      [NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER],
      [NFTA_OBJ_DATA, [
        [NFTA_COUNTER_BYTES, bigEndian64(value?.bytes ?? 0n)],
        [NFTA_COUNTER_PACKETS, bigEndian64(value?.packets ?? 0n)],
      ]],
    ],
  });
}

/** Makes a set with its elements. */
export function setAdd(plan: TablePlan, set: PlannedSet): Request[] {
  const table = plan.name;
  return [
    nftRequest({
      message: NFT_MSG_NEWSET,
      flags: NLM_F_CREATE,
      op: `add set "${set.name}" to ${tableText(table)}`,
      tree: [
        ...set.tree,
        ...set.isDynamic || set.value !== undefined
          ? []
          : [[NFTA_SET_FLAGS, 0] as const],
        [NFTA_SET_ID, plan.sets.indexOf(set) + 1],
        [NFTA_SET_USERDATA, byteOrderData(set)],
      ],
    }),
    ...fillSet(table, set),
  ];
}

/** Adds all elements of a set. */
export function fillSet(table: string, set: PlannedSet): Request[] {
  const { name, key, value, elements } = set;
  const keyBytes = value === undefined ? undefined : keySize(key);
  return elementsAdd([...elements.values()], { table, set: name, keyBytes });
}

/** Makes a chain without its rules. */
export function chainAdd(table: string, chain: PlannedChain): Request {
  return nftRequest({
    message: NFT_MSG_NEWCHAIN,
    flags: NLM_F_CREATE,
    op: `add chain "${chain.name}" to ${tableText(table)}`,
    tree: chain.tree,
  });
}

/** Appends a chain's rules. */
export function rulesAdd(table: string, chain: PlannedChain): Request[] {
  const owner = `chain "${chain.name}" of ${tableText(table)}`;
  return chain.rules.map(({ rule, tree }) =>
    nftRequest({
      message: NFT_MSG_NEWRULE,
      flags: NLM_F_CREATE | NLM_F_APPEND,
      op: () => `add rule "${formatRule(rule)}" to ${owner}`,
      tree,
    })
  );
}

export function rulesRemove(table: string, chain: PlannedChain): Request {
  return nftRequest({
    message: NFT_MSG_DELRULE,
    op: `remove rules from chain "${chain.name}" of ${tableText(table)}`,
    tree: [[NFTA_OWNER_TABLE, table], [NFTA_RULE_CHAIN, chain.name]],
  });
}
