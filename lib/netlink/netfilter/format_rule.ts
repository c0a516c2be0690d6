import type { NftElement, NftField, NftRule, NftStatement } from "./model.ts";

/** The text of a rule as `nft list` prints it. */
export function formatRule(rule: NftRule): string {
  const parts = rule.statements.flatMap((statement, index) =>
    isImplied(statement, rule.statements.slice(index + 1))
      ? []
      : [formatStatement(statement)]
  );
  if (rule.comment !== undefined) parts.push(`comment "${rule.comment}"`);
  return parts.join(" ");
}

/** One value of an element. */
export function formatValue(value: NftElement[number]): string {
  if (typeof value === "number") return formatMark(value);
  return typeof value === "string" ? `"${value}"` : value.toString();
}

/** Whether nft leaves the test out, since one that follows says as much. */
function isImplied(
  statement: NftStatement,
  following: readonly NftStatement[],
): boolean {
  if (statement.kind === "nfproto") {
    const { family } = statement;
    return following.some((other) => familyOf(other) === family);
  }
  if (statement.kind === "l4proto") {
    const { protocol } = statement;
    return following.some(({ kind }) =>
      protocol === "udp" && kind === "udpDport" ||
      protocol === "tcp" && kind === "clampMss"
    );
  }
  return false;
}

/** Of which family a packet is that agrees with the statement, where that shows. */
function familyOf(statement: NftStatement): "ipv4" | "ipv6" | undefined {
  switch (statement.kind) {
    case "address":
      return familyOfField(statement.field);
    case "lookup":
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
    case "address":
      return `${formatField(statement.field)} ${unequal(statement)}${
        formatAddress(statement)
      }`;
    case "lookup": {
      const fields = statement.fields.map(formatField).join(" . ");
      return `${fields} ${unequal(statement)}@${statement.set}`;
    }
    case "nfproto":
      return `meta nfproto ${statement.family}`;
    case "l4proto":
      return `meta l4proto ${statement.protocol}`;
    case "udpDport":
      return `udp dport ${statement.port}`;
    case "ctState":
      return `ct state ${formatStates(statement.states)}`;
    case "ctDirection":
      return `ct direction ${statement.direction}`;
    case "mark":
      return `${statement.field} ${formatMark(statement.mark)}`;
    default:
      return formatAction(statement);
  }
}

/** The statements that do something. */
type Action = Extract<
  NftStatement,
  {
    kind:
      | "counter"
      | "verdict"
      | "masquerade"
      | "reject"
      | "setCtMark"
      | "restoreMark"
      | "notrack"
      | "clampMss";
  }
>;

function formatAction(action: Action): string {
  switch (action.kind) {
    case "counter":
      return `counter name "${action.name}"`;
    case "verdict":
      return action.verdict;
    case "reject":
      return `reject with icmpx ${action.code}`;
    case "setCtMark":
      return `ct mark set ${formatMark(action.mark)}`;
    case "restoreMark":
      return "meta mark set ct mark";
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
  if (field === "inner ip saddr") return "@th,160,32";
  return field === "inner ip6 saddr" ? "@th,128,128" : field;
}

/** Bytes without a name are shown as one number. */
function formatAddress(
  { field, address }: Extract<NftStatement, { kind: "address" }>,
): string {
  return field.startsWith("inner")
    ? `0x${address.value.toString(16)}`
    : address.toString();
}

/** In the order of their bits, whatever order they were given in. */
function formatStates(
  states: Extract<NftStatement, { kind: "ctState" }>["states"],
): string {
  const all = ["invalid", "established", "related", "new"] as const;
  return all.filter((state) => states.includes(state)).join(",");
}

function formatMark(mark: number): string {
  return `0x${mark.toString(16).padStart(8, "0")}`;
}
