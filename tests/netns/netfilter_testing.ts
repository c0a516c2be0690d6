import { align } from "../../lib/netlink/message/constants.ts";
import { MessageWriter } from "../../lib/netlink/message/message_writer.ts";
import {
  Attributes,
  Payload,
} from "../../lib/netlink/message/message_reader.ts";
import type { NftTable } from "../../lib/netlink/mod.ts";
import { formatTable } from "../lab/plan_text/nft_table.ts";
import { formatRule } from "../../lib/netlink/netfilter/text/format_rule.ts";
import { dumpLine } from "../../lib/netlink/netfilter/testing.ts";
import type { TempNetns } from "./testing.ts";

/** NFT_MSG_NEWRULE of the nf_tables subsystem. */
const NEWRULE = 2566;
/** NFTA_RULE_EXPRESSIONS, NFTA_LIST_ELEM, NFTA_EXPR_NAME and NFTA_EXPR_DATA. */
const [EXPRESSIONS, ELEMENT, NAME, DATA] = [4, 1, 1, 2];

/**
 * Attributes that nft sends and we do not: NFTA_LOOKUP_SET_ID and NFTA_DYNSET_SET_ID name the set
 * once more, NFTA_BITWISE_OP is sent for some masks, with its default.
 */
const LEFT_OUT: Readonly<Record<string, number>> = {
  lookup: 4,
  bitwise: 6,
  dynset: 2,
};
/** NFTA_OBJREF_IMM_NAME, the only name that nft sends without a NUL. */
const OBJREF_NAME = 2;

/**
 * What `nft` itself sends to add the rules of a table, as `dumpRules()` writes
 * ours, but for three attributes of no consequence. Only the two sets whose
 * elements hold the source of a packet within a datagram have another type:
 * nft has no name for these bytes.
 */
export async function recordRules(
  netns: TempNetns,
  table: NftTable,
): Promise<string> {
  const empty = {
    ...table,
    chains: table.chains.map((chain) => ({ ...chain, rules: [] })),
    sets: table.sets.map((set) => ({ ...set, elements: [] })),
  };
  const text = formatTable(empty)
    .replace("type ipv4_addr . ipv4_addr", "typeof ip saddr . @th,160,32")
    .replace("type ipv6_addr . ipv6_addr", "typeof ip6 saddr . @th,128,128");
  await netns.exec("nft", text);
  const lines: string[] = [];
  for (const chain of table.chains) {
    for (const rule of chain.rules) {
      const command = `${chain.name} ${formatRule(rule)}`;
      lines.push(`${chain.name}: ${formatRule(rule)}`);
      lines.push(...await recordRule(netns, `inet ${table.name} ${command}`));
    }
  }
  return `${lines.join("\n")}\n`;
}

async function recordRule(netns: TempNetns, rule: string): Promise<string[]> {
  const output = await netns.exec("nft", "--debug=mnl", `add rule ${rule}`);
  const message = parseMessages(output).find(({ type }) => type === NEWRULE);
  if (message === undefined) throw new Error(`nft sends no rule for "${rule}"`);
  const expressions = message.attributes.nested(EXPRESSIONS);
  return (expressions?.list(ELEMENT) ?? []).map((bytes) => {
    const expression = new Attributes(bytes);
    const name = expression.string(NAME) ?? "";
    const data = expression.bytes(DATA) ?? new Uint8Array();
    return dumpLine(name, withoutWhims(name, data));
  });
}

/** Leaves out what makes no difference and adds the NUL to a counter's name. */
function withoutWhims(name: string, data: Uint8Array): Uint8Array {
  const payload = new Payload(data);
  const writer = new MessageWriter();
  for (let at = 0; at < data.byteLength; at += align(payload.u16(at))) {
    const type = payload.u16(at + 2); // with NLA_F_NESTED
    const value = data.subarray(at + 4, at + payload.u16(at));
    if (type === LEFT_OUT[name]) continue;
    const text = name === "objref" && type === OBJREF_NAME;
    writer.attributeBytes(type, text ? Uint8Array.of(...value, 0) : value);
  }
  return writer.bytes();
}

interface RecordedMessage {
  readonly type: number;
  readonly attributes: Attributes;
}

/** Reads what `nft --debug=mnl` prints (mnl_nlmsg_fprintf() of libmnl): headers of messages and attributes, and data, four bytes a line. */
function parseMessages(output: string): RecordedMessage[] {
  // deno-lint-ignore no-control-regex -- libmnl colours what it prints
  const plain = output.replaceAll(/\u001b\[[0-9;]*m/g, "");
  return plain.split(/message length \|\n/).slice(1).map((text) => {
    const type = Number(/\|\s*(\d{5}) \|/.exec(text)?.[1]);
    const writer = new MessageWriter();
    for (const line of text.split("\n")) writeLine(writer, line);
    return { type, attributes: new Attributes(writer.bytes()) };
  });
}

function writeLine(writer: MessageWriter, line: string): void {
  const header = /^\|(\d{5})\|([N-])([B-])\|(\d{5})\|/.exec(line);
  if (header !== null) {
    writer.u16(Number(header[1]));
    writer.u16(Number(header[4]) | (header[2] === "N" ? 0x8000 : 0));
    return;
  }
  const data = /^\| ((?:[0-9a-f]{2} ){4}) ?\|\s+\|\s+data/.exec(line);
  for (const byte of data?.[1]?.trim().split(" ") ?? []) {
    writer.u8(parseInt(byte, 16));
  }
}

/** What `nft list table inet NAME` prints. */
export function listTable(netns: TempNetns, table: string): Promise<string> {
  return netns.exec("nft", "list", "table", "inet", table);
}
