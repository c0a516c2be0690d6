import { Address } from "../../../inet/mod.ts";
import { NetlinkError } from "../../message/errors.ts";
import { Attributes } from "../../message/message_reader.ts";
import {
  NF_ACCEPT,
  NFPROTO_ARP,
  NFPROTO_BRIDGE,
  NFPROTO_INET,
  NFPROTO_IPV4,
  NFPROTO_IPV6,
  NFPROTO_NETDEV,
  NFT_MSG_GETCHAIN,
  NFT_MSG_GETSET,
  NFT_MSG_GETTABLE,
  NFTA_CHAIN_HOOK,
  NFTA_CHAIN_NAME,
  NFTA_CHAIN_POLICY,
  NFTA_CHAIN_TYPE,
  NFTA_DATA_VALUE,
  NFTA_DATA_VERDICT,
  NFTA_HOOK_HOOKNUM,
  NFTA_HOOK_PRIORITY,
  NFTA_LIST_ELEM,
  NFTA_OWNER_TABLE,
  NFTA_RULE_CHAIN,
  NFTA_RULE_EXPRESSIONS,
  NFTA_SET_NAME,
  NFTA_TABLE_NAME,
  NFTA_VERDICT_CHAIN,
  NFTA_VERDICT_CODE,
} from "../wire/constants.ts";
import { operandsOf } from "../wire/instruction.ts";
import { EVERYBODY } from "../wire/requests.ts";
import type { TableReader } from "./reader.ts";

/** Of `<linux/netfilter.h>`, by nft's names, in the order in which they are shown. */
const FAMILIES = {
  inet: NFPROTO_INET,
  ip: NFPROTO_IPV4,
  ip6: NFPROTO_IPV6,
  bridge: NFPROTO_BRIDGE,
  netdev: NFPROTO_NETDEV,
  arp: NFPROTO_ARP,
} as const;

/** Elements of a set that are shown. */
const MAX_ELEMENTS = 1_000;
/** Messages that are read of a set, each with at least a hundred elements. */
const MAX_PARTS = 100;
/** Sets of a table that are shown, chains that are read, and lines of the table. */
const [MAX_SETS, MAX_CHAINS, MAX_LINES] = [200, 10_000, 2_000];
/** Information of an extension of iptables is shown up to this size, unless it is text. */
const MAX_INFO_BYTES = 12;

/** Which table. */
interface TableName {
  readonly family: number;
  readonly name: string;
}

/**
 * All tables of all families for people, also those that other programs made:
 * counters, sets, chains, and rules as the kernel's instructions, as
 * `nft --debug=netlink` shows them. What may be an address, or the beginning of
 * one, is written as an address, so that it can be recognized and redacted. Of
 * a table that is large, the first lines; chains of a hook come first.
 *
 * @throws {NetlinkError} when the kernel refuses to list tables
 */
export async function describeRuleset(reader: TableReader): Promise<string[]> {
  const lines: string[] = [];
  for (const [text, family] of Object.entries(FAMILIES)) {
    const names = await reader.list(
      { message: NFT_MSG_GETTABLE, family, op: "list tables", tree: [] },
      (answer) => answer.string(NFTA_TABLE_NAME),
    );
    for (const name of names) {
      lines.push(`table ${text} ${name}`);
      const own = await describeTable(reader, { family, name })
        .catch(whyNotRead);
      lines.push(...own.slice(0, MAX_LINES).map((line) => `  ${line}`));
      if (own.length > MAX_LINES) {
        lines.push(`  and ${own.length - MAX_LINES} more lines`);
      }
    }
  }
  return lines;
}

/** Another program may delete a table at any time, or have something in it that is not understood. */
function whyNotRead(error: unknown): string[] {
  const isKnown = error instanceof NetlinkError || error instanceof SyntaxError;
  if (!isKnown) throw error;
  return [error.message];
}

async function describeTable(
  reader: TableReader,
  table: TableName,
): Promise<string[]> {
  return [
    ...await counterLines(reader, table),
    ...await setLines(reader, table),
    ...await chainLines(reader, table),
  ];
}

async function counterLines(
  reader: TableReader,
  table: TableName,
): Promise<string[]> {
  const counters = await reader.listCounters(table.name, table);
  return counters.map(({ name, value: { packets, bytes } }) =>
    `counter ${name} packets ${packets} bytes ${bytes}`
  );
}

async function setLines(
  reader: TableReader,
  { family, name }: TableName,
): Promise<string[]> {
  const sets = await reader.list(
    {
      message: NFT_MSG_GETSET,
      family,
      op: `list sets of table "${name}"`,
      tree: [[NFTA_OWNER_TABLE, name]],
    },
    (answer) => answer.string(NFTA_SET_NAME),
    { atMost: MAX_SETS },
  );
  const lines: string[] = [];
  for (const set of sets) {
    const elements = await reader.listElements(
      { table: name, set },
      { family, atMost: MAX_PARTS },
    );
    lines.push(`set ${set}: ${elementsText(elements)}`);
  }
  return lines;
}

function elementsText(elements: Uint8Array[] | typeof EVERYBODY): string {
  if (elements === EVERYBODY) return elements;
  const count = elements.length > MAX_ELEMENTS
    ? `more than ${MAX_ELEMENTS}:`
    : elements.length;
  const shown = elements.slice(0, MAX_ELEMENTS).map(valueText);
  return `${count} ${shown.join(", ")}`;
}

async function chainLines(
  reader: TableReader,
  { family, name }: TableName,
): Promise<string[]> {
  const chains = await reader.list(
    {
      message: NFT_MSG_GETCHAIN,
      family,
      op: `list chains of table "${name}"`,
      tree: [],
    },
    (answer) =>
      answer.string(NFTA_OWNER_TABLE) === name
        ? {
          name: answer.string(NFTA_CHAIN_NAME),
          text: chainText(answer),
          hasHook: answer.nested(NFTA_CHAIN_HOOK) !== undefined,
        }
        : undefined,
    { atMost: MAX_CHAINS },
  );
  const rules = Map.groupBy(
    await reader.listRules(name, { family }),
    (rule) => rule.string(NFTA_RULE_CHAIN),
  );
  const { true: hooked = [], false: others = [] } = Object.groupBy(
    chains,
    ({ hasHook }) => `${hasHook}`,
  );
  return [...hooked, ...others].flatMap((chain) => [
    chain.text,
    ...(rules.get(chain.name) ?? []).map(ruleText),
  ]);
}

function chainText(chain: Attributes): string {
  const name = `chain ${chain.string(NFTA_CHAIN_NAME)}`;
  const hook = chain.nested(NFTA_CHAIN_HOOK);
  if (hook === undefined) return name;
  const number = hook.u32Be(NFTA_HOOK_HOOKNUM);
  const priority = (hook.u32Be(NFTA_HOOK_PRIORITY) ?? 0) | 0;
  const policy = chain.u32Be(NFTA_CHAIN_POLICY) === NF_ACCEPT
    ? "accept"
    : "drop";
  return `${name} type ${
    chain.string(NFTA_CHAIN_TYPE)
  } hook ${number} priority ${priority} policy ${policy}`;
}

function ruleText(rule: Attributes): string {
  const instructions = rule.nested(NFTA_RULE_EXPRESSIONS)
    ?.list(NFTA_LIST_ELEM) ?? [];
  return `  ${instructions.map(instructionText).join(" ")}`;
}

/** Of bytes as `instruction()` makes them. */
function instructionText(bytes: Uint8Array): string {
  const { name, operands } = operandsOf(new Attributes(bytes));
  const words = operands.map(([key, value]) =>
    `${key} ${operandText(key, value)}`
  );
  return `[ ${[name, ...words].join(" ")} ]`;
}

function operandText(key: string, bytes: Uint8Array): string {
  switch (key) {
    case "name":
    case "set":
    case "set_name":
    case "imm_name":
      return new TextDecoder().decode(bytes).replaceAll("\0", "");
    case "data":
    case "mask":
    case "xor":
      return dataText(new Attributes(bytes));
    case "expr":
      return instructionText(bytes);
    case "info":
      return infoText(bytes);
  }
  const number = bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  return `${number}`;
}

function dataText(data: Attributes): string {
  const verdict = data.nested(NFTA_DATA_VERDICT);
  const code = verdict?.u32Be(NFTA_VERDICT_CODE);
  if (code !== undefined) {
    const chain = verdict?.string(NFTA_VERDICT_CHAIN);
    return `verdict ${code | 0}${chain === undefined ? "" : ` ${chain}`}`;
  }
  return valueText(data.bytes(NFTA_DATA_VALUE) ?? new Uint8Array());
}

/** What an extension of iptables has: a comment, a short number, or something else that may have addresses in it. */
function infoText(bytes: Uint8Array): string {
  const [, text] = /^([\x20-\x7e]+)\0/.exec(
    String.fromCharCode(...bytes.subarray(0, 256)),
  ) ?? [];
  if (text !== undefined) return JSON.stringify(text);
  return bytes.length > MAX_INFO_BYTES
    ? `of ${bytes.length} bytes`
    : `0x${bytes.toHex()}`;
}

function valueText(bytes: Uint8Array): string {
  if (bytes.length === 16) return Address.fromBytes(bytes).toString();
  const words: string[] = [];
  for (let at = 0; at < bytes.length; at += 4) {
    const word = bytes.subarray(at, at + 4);
    words.push(
      word.length < 3
        ? `0x${word.toHex()}`
        : [...word, 0].slice(0, 4).join("."),
    );
  }
  return words.join(" ");
}
