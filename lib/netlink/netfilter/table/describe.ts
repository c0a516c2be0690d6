import { Address } from "../../../inet/mod.ts";
import { Attributes } from "../../message/message_reader.ts";
import {
  NF_ACCEPT,
  NFT_MSG_GETCHAIN,
  NFT_MSG_GETSET,
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
  NFTA_VERDICT_CODE,
} from "../wire/constants.ts";
import { operandsOf } from "../wire/instruction.ts";
import { tableText } from "../wire/requests.ts";
import type { TableReader } from "./reader.ts";

/** Elements of a set that are shown. */
const MAX_ELEMENTS = 1_000;

/**
 * Sets, chains and rules of a table for people, also of one that another
 * program made: rules as the kernel's instructions, as `nft --debug=netlink`
 * shows them. What may be an address, or the beginning of one, is written as an
 * address, so that it can be recognized and redacted.
 *
 * @throws {NetlinkError} when the kernel refuses; `ENOENT` when the table does not exist
 */
export async function describeTable(
  reader: TableReader,
  table: string,
): Promise<string[]> {
  const lines: string[] = [];
  const sets = await reader.list({
    message: NFT_MSG_GETSET,
    op: `list sets of ${tableText(table)}`,
    tree: [[NFTA_OWNER_TABLE, table]],
  }, (answer) => answer.string(NFTA_SET_NAME));
  for (const set of sets) {
    const elements = await reader.listElements({ table, set });
    if (typeof elements === "string") lines.push(`set ${set}: ${elements}`);
    else {
      const shown = elements.slice(0, MAX_ELEMENTS).map(valueText);
      lines.push(`set ${set}: ${elements.length} ${shown.join(", ")}`);
    }
  }
  const chains = await reader.list(
    {
      message: NFT_MSG_GETCHAIN,
      op: `list chains of ${tableText(table)}`,
      tree: [],
    },
    (answer) =>
      answer.string(NFTA_OWNER_TABLE) === table
        ? [answer.string(NFTA_CHAIN_NAME) ?? "", chainText(answer)] as const
        : undefined,
  );
  const rules = await reader.listRules(table);
  for (const [name, text] of chains) {
    lines.push(text);
    for (const rule of rules) {
      if (rule.string(NFTA_RULE_CHAIN) === name) lines.push(ruleText(rule));
    }
  }
  return lines;
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
  }
  const number = bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  return `${number}`;
}

function dataText(data: Attributes): string {
  const verdict = data.nested(NFTA_DATA_VERDICT)?.u32Be(NFTA_VERDICT_CODE);
  if (verdict !== undefined) return `verdict ${verdict | 0}`;
  return valueText(data.bytes(NFTA_DATA_VALUE) ?? new Uint8Array());
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
