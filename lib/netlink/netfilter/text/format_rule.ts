import type { Prefix } from "../../../inet/mod.ts";
import {
  CT_STATES,
  type NftElement,
  type NftField,
  type NftRule,
  type NftStatement,
} from "../model/model.ts";

/** The text of a rule as `nft list` prints it. */
export function formatRule(rule: NftRule): string {
  const parts = rule.statements.flatMap((statement, index) =>
    isImplied(statement, {
        before: rule.statements.slice(0, index),
        after: untilAction(rule.statements.slice(index + 1)),
      })
      ? []
      : [formatStatement(statement)]
  );
  if (rule.comment !== undefined) parts.push(`comment "${rule.comment}"`);
  return parts.join(" ");
}

export function formatValue(value: NftElement[number]): string {
  if (typeof value === "number") return formatMark(value);
  return typeof value === "string" ? `"${value}"` : value.toString();
}

/** Whether the test is not shown: nft leaves it out where a later one says as much, and encodeRule() where an earlier one does. */
function isImplied(
  statement: NftStatement,
  others: {
    readonly before: readonly NftStatement[];
    readonly after: readonly NftStatement[];
  },
): boolean {
  if (statement.kind === "nfproto") {
    const { family } = statement;
    return others.before.some((other) => testedFamily(other) === family) ||
      others.after.some((other) => familyOf(other) === family);
  }
  if (statement.kind === "l4proto") {
    const { protocol } = statement;
    return others.before.some((other) => testedProtocol(other) === protocol) ||
      others.after.some((other) =>
        other.kind !== "l4proto" && testedProtocol(other) === protocol
      );
  }
  return false;
}

/** The matches up to the first thing that is done, and that: nft looks no further. */
function untilAction(statements: readonly NftStatement[]): NftStatement[] {
  const index = statements.findIndex(({ kind }) => ACTIONS.has(kind));
  return index < 0 ? [...statements] : statements.slice(0, index + 1);
}

/** The statements that do something. */
const ACTION_KINDS = [
  "counter",
  "verdict",
  "masquerade",
  "setAddress",
  "setByMap",
  "reject",
  "setCtMark",
  "setMetaMark",
  "setMarkBits",
  "restoreMark",
  "saveMark",
  "notrack",
  "clampMss",
] as const;

type Action = Extract<NftStatement, { kind: typeof ACTION_KINDS[number] }>;

const ACTIONS: ReadonlySet<NftStatement["kind"]> = new Set(ACTION_KINDS);

/** For which family the statement has a test of its own or gets one. */
function testedFamily(statement: NftStatement): "ipv4" | "ipv6" | undefined {
  if (statement.kind === "nfproto") return statement.family;
  return statement.kind === "l4proto" ? undefined : familyOf(statement);
}

/** For which protocol the statement has a test of its own or gets one. */
function testedProtocol(statement: NftStatement): string | undefined {
  if (statement.kind === "l4proto") return statement.protocol;
  if (statement.kind === "icmpv6Type") return "ipv6-icmp";
  if (UDP_STATEMENTS.has(statement.kind)) return "udp";
  return TCP_STATEMENTS.has(statement.kind) ? "tcp" : undefined;
}

const UDP_STATEMENTS: ReadonlySet<NftStatement["kind"]> = new Set(
  ["udpDport", "udpSport"] as const,
);

const TCP_STATEMENTS: ReadonlySet<NftStatement["kind"]> = new Set(
  ["tcpDport", "tcpSportBelow", "tcpNotSyn", "clampMss"] as const,
);

/** The family of packets that match the statement; undefined where it does not decide that. */
function familyOf(statement: NftStatement): "ipv4" | "ipv6" | undefined {
  switch (statement.kind) {
    case "address":
    case "prefix":
    case "setAddress":
      return familyOfField(statement.field);
    case "setByMap":
      return familyOfField(statement.target) ?? familyOfField(statement.field);
    case "icmpv6Type":
      return "ipv6";
    case "lookup":
    case "addToSet":
      return statement.fields.map(familyOfField).find((family) => family);
    case "l4proto":
      if (statement.protocol === "icmp") return "ipv4";
      return statement.protocol === "ipv6-icmp" ? "ipv6" : undefined;
    default:
      return undefined;
  }
}

function familyOfField(field: NftField): "ipv4" | "ipv6" | undefined {
  if (field.startsWith("ip ")) return "ipv4";
  return field.startsWith("ip6 ") ? "ipv6" : undefined;
}

function formatStatement(statement: NftStatement): string {
  switch (statement.kind) {
    case "ifname":
      return `${statement.field} ${unequal(statement)}"${statement.name}"`;
    case "ifindex":
      return `${statement.field} ${statement.index}`;
    case "address":
      return `${formatField(statement.field)} ${unequal(statement)}${
        formatAddress(statement)
      }`;
    case "prefix":
      return `${statement.field} ${unequal(statement)}${
        formatPrefix(statement.prefix)
      }`;
    case "lookup": {
      const fields = statement.fields.map(formatField).join(" . ");
      return `${fields} ${unequal(statement)}@${statement.set}`;
    }
    case "iifgroup": {
      const { mask, not, group } = statement;
      if (mask === undefined) return `iifgroup ${unequal(statement)}${group}`;
      return `iifgroup & ${mask} ${not ? "!=" : "=="} ${group}`;
    }
    case "reversePath":
      return `fib saddr . iif oif ${statement.exists ? "exists" : "missing"}`;
    case "icmpv6Type":
      return `icmpv6 type ${statement.type}`;
    case "nfproto":
      return `meta nfproto ${statement.family}`;
    case "l4proto":
      return `meta l4proto ${statement.protocol}`;
    case "udpDport":
      return `udp dport ${statement.port}`;
    case "udpSport":
      return `udp sport ${statement.port}`;
    case "tcpDport":
      return `tcp dport ${statement.port}`;
    case "tcpSportBelow":
      return `tcp sport < ${statement.port}`;
    case "tcpNotSyn":
      return "tcp flags ! syn";
    case "ctState":
      return `ct state ${formatStates(statement.states)}`;
    case "ctUnconfirmed":
      return "ct status ! confirmed";
    case "random":
      return `meta random < ${statement.below}`;
    case "addToSet":
      return `add @${statement.set} { ${formatAdded(statement)} }`;
    case "ctDirection":
      return `ct direction ${statement.direction}`;
    case "mark":
      return formatMarkMatch(statement);
    default:
      return formatAction(statement);
  }
}

function formatAdded(
  { fields, connectionsOver, rateOver }: Extract<
    NftStatement,
    { kind: "addToSet" }
  >,
): string {
  const key = fields.map(formatField).join(" . ");
  if (connectionsOver !== undefined) {
    return `${key} ct count over ${connectionsOver}`;
  }
  if (rateOver === undefined) return key;
  const { perSecond, burst } = rateOver;
  return `${key} limit rate over ${perSecond}/second burst ${burst} packets`;
}

function formatAction(action: Action): string {
  switch (action.kind) {
    case "counter":
      return `counter name "${action.name}"`;
    case "verdict":
      return action.verdict;
    case "setAddress":
      return `${action.field} set ${action.address}`;
    case "setByMap": {
      const { target, field, map } = action;
      return `${target} set ${formatField(field)} map @${map}`;
    }
    case "reject":
      return `reject with icmpx ${action.code}`;
    case "setCtMark":
      return `ct mark set ${formatMark(action.mark)}`;
    case "setMetaMark":
      return `meta mark set ${formatMark(action.mark)}`;
    case "setMarkBits": {
      const { field, bits } = action;
      return `${field} set ${field} | ${formatMark(bits)}`;
    }
    case "restoreMark":
      return "meta mark set ct mark";
    case "saveMark":
      return "ct mark set meta mark";
    case "clampMss":
      return "tcp flags syn / syn,rst tcp option maxseg size set rt mtu";
    case "masquerade":
    case "notrack":
      return action.kind;
  }
}

function unequal({ not }: { readonly not: boolean }): string {
  return not ? "!= " : "";
}

/** What nft knows no name for it shows as offset and length in bits. */
function formatField(field: NftField): string {
  switch (field) {
    case "inner ip saddr":
      return "@th,160,32";
    case "inner ip daddr":
      return "@th,192,32";
    case "inner ip6 saddr":
      return "@th,128,128";
    case "inner ip6 daddr":
      return "@th,256,128";
    default:
      return field;
  }
}

/** Bytes without a name are shown as one number. */
function formatAddress(
  { field, address }: Extract<NftStatement, { kind: "address" }>,
): string {
  return field.startsWith("inner")
    ? `0x${address.value.toString(16)}`
    : address.toString();
}

/** In the order of their bits, not in that in which they were given. */
function formatStates(
  states: Extract<NftStatement, { kind: "ctState" }>["states"],
): string {
  return CT_STATES.filter((state) => states.includes(state)).join(",");
}

/** nft shows the prefix of one address as that address. */
function formatPrefix(prefix: Prefix): string {
  const { address, length } = prefix;
  return (length === address.bits ? address : prefix).toString();
}

function formatMarkMatch(
  { field, mark, mask }: Extract<NftStatement, { kind: "mark" }>,
): string {
  if (mask === undefined) return `${field} ${formatMark(mark)}`;
  // The highest bits are a prefix to nft.
  const length = Math.clz32(~mask);
  const rest = 2 ** (32 - length);
  if (mask === 2 ** 32 - rest) return `${field} ${formatMark(mark)}/${length}`;
  return `${field} & ${formatMark(mask)} == ${formatMark(mark)}`;
}

function formatMark(mark: number): string {
  return `0x${mark.toString(16).padStart(8, "0")}`;
}
