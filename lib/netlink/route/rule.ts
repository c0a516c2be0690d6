import type { Family, Prefix } from "../../inet/mod.ts";
import {
  NLM_F_CREATE,
  NLM_F_EXCL,
  RTM_DELRULE,
  RTM_NEWRULE,
} from "../message/constants.ts";
import { familyNumber, familyOf, parsePrefix } from "../message/family.ts";
import type { Message } from "../message/message_reader.ts";
import type { MessageWriter } from "../message/message_writer.ts";
import { checkInterfaceName } from "../message/names.ts";
import type { Request } from "../message/request.ts";
import { LOCAL_TABLE, MAIN_TABLE, PROTOCOL_KERNEL } from "./route.ts";

/** Attributes of `<linux/fib_rules.h>`. */
const FRA_DST = 1;
const FRA_SRC = 2;
const FRA_IIFNAME = 3;
const FRA_GOTO = 4;
const FRA_PRIORITY = 6;
const FRA_FWMARK = 10;
const FRA_SUPPRESS_PREFIXLEN = 14;
const FRA_TABLE = 15;
const FRA_FWMASK = 16;
const FRA_PAD = 18;
const FRA_PROTOCOL = 21;
/** Those that {@linkcode Rule} has. */
const KNOWN_ATTRIBUTES: ReadonlySet<number> = new Set([
  ...[FRA_DST, FRA_SRC, FRA_IIFNAME, FRA_GOTO, FRA_PRIORITY, FRA_FWMARK],
  ...[FRA_TABLE, FRA_FWMASK, FRA_PROTOCOL, FRA_PAD],
]);
/** FRA_SUPPRESS_PREFIXLEN of a rule that takes all routes of its table; the kernel always sends it. */
const SUPPRESS_NOTHING = 0xffffffff;
/** FIB_RULE_INVERT: the rule is for packets that its selectors do not match. */
const FLAG_INVERT = 2;
/** FR_ACT_TO_TBL, FR_ACT_GOTO and FR_ACT_NOP. */
const ACTION_LOOKUP = 1;
const ACTION_GOTO = 2;
const ACTION_NOTHING = 3;
const ACTIONS = new Set([ACTION_LOOKUP, ACTION_GOTO, ACTION_NOTHING]);
/** struct fib_rule_hdr. */
const FIB_RULE_HEADER_SIZE = 12;
/** As `ip` names them. */
const TABLE_NAMES: ReadonlyMap<number, string> = new Map([
  [253, "default"],
  [MAIN_TABLE, "main"],
  [LOCAL_TABLE, "local"],
]);

/** A routing rule as the kernel describes it, or one to add or delete. */
export interface Rule {
  /** The family of the packets it looks at. */
  readonly family: Family;
  /** Rules are tried from the lowest number on. */
  readonly priority: number;
  /** The table it looks up; 0 for a rule that does something else. */
  readonly table: number;
  /** The priority at which the kernel goes on, which has to be higher. Without a rule there, it goes on with the next one. */
  readonly goto?: number | undefined;
  /** It does nothing: a place to go on at. Its table is 0. */
  readonly isNop?: true;
  /** Absent for any. */
  readonly source?: Prefix | undefined;
  /** Absent for any. */
  readonly destination?: Prefix | undefined;
  /** The mark that netfilter or a socket put on the packet. */
  readonly fwmark?: number | undefined;
  /** All 32 bits of the mark count where it is absent. */
  readonly fwmask?: number | undefined;
  /** The name of the link that the packet came in by. */
  readonly iif?: string | undefined;
  /** Who made it. */
  readonly protocol?: number | undefined;
  /** Whether the kernel has more of it than these fields say: further selectors, an inversion, another action. For reading alone. */
  readonly hasMore?: true;
}

/**
 * Adds a rule. Refused with EEXIST when there is one like it, or one that asks
 * for more: to the kernel the new one agrees with it in all that is given.
 * With `duplicate` it is added beside those that are there.
 */
export function ruleAdd(
  rule: Rule,
  options: { readonly duplicate?: boolean } = {},
): Request {
  return {
    type: RTM_NEWRULE,
    flags: NLM_F_CREATE | (options.duplicate === true ? 0 : NLM_F_EXCL),
    describe: () => `add ${describeRule(rule)}`,
    write: ruleWriter(rule),
  };
}

/** Deletes the first rule that agrees with all that is given. Refused with ENOENT when there is none. */
export function ruleDelete(rule: Rule): Request {
  return {
    type: RTM_DELRULE,
    flags: 0,
    describe: () => `delete ${describeRule(rule)}`,
    write: ruleWriter(rule),
  };
}

/** Writes the filter of a rule dump. */
export function writeRuleFilter(
  writer: MessageWriter,
  family: Family | undefined,
): void {
  writeRuleHeader(writer, { family, destination: 0, source: 0, action: 0 });
}

/**
 * Reads an RTM_NEWRULE; undefined when it is not of IP.
 *
 * @throws {SyntaxError} when the message is malformed
 */
export function parseRule(message: Message): Rule | undefined {
  const { payload } = message;
  const attributes = payload.attributes(FIB_RULE_HEADER_SIZE);
  const family = familyOf(payload.u8(0));
  if (family === undefined) return undefined;
  const mask = attributes.u32(FRA_FWMASK);
  return {
    family,
    priority: attributes.u32(FRA_PRIORITY) ?? 0,
    table: attributes.u32(FRA_TABLE) ?? payload.u8(4),
    source: parsePrefix(attributes.bytes(FRA_SRC), {
      family,
      length: payload.u8(2),
    }),
    destination: parsePrefix(attributes.bytes(FRA_DST), {
      family,
      length: payload.u8(1),
    }),
    // The kernel leaves a mark of 0 out, also where the rule asks for it.
    fwmark: attributes.u32(FRA_FWMARK) ?? (mask === undefined ? undefined : 0),
    fwmask: mask === 0xffffffff ? undefined : mask,
    iif: attributes.string(FRA_IIFNAME),
    goto: attributes.u32(FRA_GOTO),
    protocol: attributes.u8(FRA_PROTOCOL),
    ...(payload.u8(7) === ACTION_NOTHING ? { isNop: true } : {}),
    ...(hasMore(payload, attributes) ? { hasMore: true } : {}),
  };
}

/** Attributes that later kernels will have count as well. */
function hasMore(
  payload: Message["payload"],
  attributes: ReturnType<Message["payload"]["attributes"]>,
): boolean {
  const isPlain = payload.u8(3) === 0 && // type of service
    ACTIONS.has(payload.u8(7)) &&
    (payload.u32(8) & FLAG_INVERT) === 0;
  return !isPlain ||
    attributes.types().some((type) =>
      type === FRA_SUPPRESS_PREFIXLEN
        ? attributes.u32(type) !== SUPPRESS_NOTHING
        : !KNOWN_ATTRIBUTES.has(type)
    );
}

/** A rule as `ip rule show` has it, e.g. `1900: from all to 10.0.0.0/8 lookup main`. */
export function ruleText(rule: Rule): string {
  const { priority, source, destination, fwmark, fwmask, iif } = rule;
  const { table, goto, protocol, hasMore } = rule;
  const words = [`${priority}: from ${source ?? "all"}`];
  if (destination !== undefined) words.push(`to ${destination}`);
  if (fwmark !== undefined) {
    words.push(`fwmark ${hex(fwmark)}${fwmask ? `/${hex(fwmask)}` : ""}`);
  }
  if (iif !== undefined) words.push(`iif ${iif}`);
  if (goto !== undefined) words.push(`goto ${goto}`);
  else if (table !== 0) words.push(`lookup ${TABLE_NAMES.get(table) ?? table}`);
  else if (rule.isNop === true) words.push("nop");
  // As `ip`, which leaves out rules of unknown origin and the kernel's own.
  if (protocol && protocol !== PROTOCOL_KERNEL) words.push(`proto ${protocol}`);
  if (hasMore === true) words.push("and more");
  return words.join(" ");
}

function hex(mark: number): string {
  return `0x${mark.toString(16)}`;
}

/** Names the rule for admins, e.g. `ipv4 rule "1900: from all lookup 117"`. */
export function describeRule(rule: Rule): string {
  return `${rule.family} rule "${ruleText(rule)}"`;
}

function ruleWriter(rule: Rule): (writer: MessageWriter) => void {
  const { family, source, destination, fwmark, fwmask, iif, protocol } = rule;
  if (iif !== undefined) checkInterfaceName(iif);
  for (const part of [source, destination]) {
    if (part !== undefined && part.family !== family) {
      throw new TypeError(
        `Cannot use "${part}" in an ${family} rule: it is ${part.family}`,
      );
    }
  }
  return (writer) => {
    writeRuleHeader(writer, {
      family,
      destination: destination?.length ?? 0,
      source: source?.length ?? 0,
      action: actionOf(rule),
    });
    if (destination !== undefined) {
      writer.attributeBytes(FRA_DST, destination.address.toBytes());
    }
    if (source !== undefined) {
      writer.attributeBytes(FRA_SRC, source.address.toBytes());
    }
    if (iif !== undefined) writer.attributeString(FRA_IIFNAME, iif);
    writer.attributeU32(FRA_PRIORITY, rule.priority);
    if (fwmark !== undefined) writer.attributeU32(FRA_FWMARK, fwmark);
    if (fwmask !== undefined) writer.attributeU32(FRA_FWMASK, fwmask);
    if (protocol !== undefined) writer.attributeU8(FRA_PROTOCOL, protocol);
    if (rule.goto !== undefined) writer.attributeU32(FRA_GOTO, rule.goto);
    writer.attributeU32(FRA_TABLE, rule.table);
  };
}

function actionOf({ goto, isNop }: Rule): number {
  if (goto !== undefined) return ACTION_GOTO;
  return isNop === true ? ACTION_NOTHING : ACTION_LOOKUP;
}

/** Writes a `struct fib_rule_hdr`. The table goes into an attribute, which has room for any. */
function writeRuleHeader(
  writer: MessageWriter,
  fields: {
    family: Family | undefined;
    destination: number;
    source: number;
    action: number;
  },
): void {
  writer.u8(familyNumber(fields.family));
  writer.u8(fields.destination);
  writer.u8(fields.source);
  writer.u8(0); // type of service
  writer.u8(0); // table
  writer.u16(0); // reserved
  writer.u8(fields.action);
  writer.u32(0); // flags
}
