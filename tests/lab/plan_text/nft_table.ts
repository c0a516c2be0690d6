import {
  formatRule,
  formatValue,
} from "../../../lib/netlink/netfilter/text/format_rule.ts";
import type {
  NftChain,
  NftElement,
  NftSet,
  NftTable,
} from "../../../lib/netlink/netfilter/model/model.ts";
import {
  elementId,
  encodeElement,
  keyByteOrder,
} from "../../../lib/netlink/netfilter/wire/set_key.ts";

/**
 * The text that `nft list table inet NAME` prints for the table (nftables
 * 1.0.6) before its counters have counted anything.
 */
export function formatTable(table: NftTable): string {
  const blocks = [
    ...table.counters.map((name) =>
      block(`counter ${name}`, ["packets 0 bytes 0"])
    ),
    ...table.sets.map((set) =>
      block(
        `${set.value === undefined ? "set" : "map"} ${set.name}`,
        formatSet(set),
      )
    ),
    ...table.chains.map((chain) =>
      block(`chain ${chain.name}`, formatChain(chain))
    ),
  ];
  const head = `table ${table.family} ${table.name} {\n`;
  return `${head}${blocks.join("\n")}}\n`;
}

function block(head: string, lines: readonly string[]): string {
  const body = lines.map((line) => `\t\t${line}\n`).join("");
  return `\t${head} {\n${body}\t}\n`;
}

function formatSet(set: NftSet): string[] {
  const value = set.value === undefined ? "" : ` : ${set.value}`;
  const type = `type ${set.key.join(" . ")}${value}`;
  const lines = [type, ...formatDynamic(set)];
  if (set.elements.length > 0) {
    lines.push(`elements = { ${formatElements(set)} }`);
  }
  return lines;
}

function formatDynamic({ dynamic }: NftSet): string[] {
  if (dynamic === undefined) return [];
  const { size, timeoutMs } = dynamic;
  if (timeoutMs === undefined) return [`size ${size}`, "flags dynamic"];
  const timeout = `timeout ${formatTime(timeoutMs)}`;
  return [`size ${size}`, "flags dynamic,timeout", timeout];
}

/** As time_print() of nftables' datatype.c has it. */
function formatTime(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const parts = [
    [Math.floor(hours / 24), "d"],
    [hours % 24, "h"],
    [minutes % 60, "m"],
    [seconds % 60, "s"],
    [ms % 1000, "ms"],
  ] as const;
  return parts.flatMap(([n, unit]) => n > 0 ? [`${n}${unit}`] : []).join("");
}

/**
 * The elements without those that come twice, in the order that `nft list`
 * shows them in: as one number whose bytes are in the key's order; those of a
 * concatenation are taken for the machine's.
 */
export function sortElements(set: NftSet): NftElement[] {
  const network = keyByteOrder(set.key) === 2;
  const seen = new Map<string, { bytes: Uint8Array; element: NftElement }>();
  for (const element of set.elements) {
    const bytes = encodeElement(element.slice(0, set.key.length), set.key);
    if (!network) bytes.reverse();
    seen.set(elementId(bytes), { bytes, element });
  }
  return [...seen]
    .sort(([a], [b]) => a < b ? -1 : 1)
    .map(([, { element }]) => element);
}

/** Where a list of elements goes on in the next line. */
const CONTINUATION = `,\n\t\t\t     `;

function formatElements(set: NftSet): string {
  const perLine = elementsPerLine(set.key);
  return sortElements(set)
    .map((element) => formatElement(element, set))
    .map((text, index) => {
      if (index === 0) return text;
      return `${index % perLine === 0 ? CONTINUATION : ", "}${text}`;
    })
    .join("");
}

function formatElement(element: NftElement, { key }: NftSet): string {
  const texts = element.map(formatValue);
  const parts = [texts.slice(0, key.length), texts.slice(key.length)];
  return parts.filter((part) => part.length > 0)
    .map((part) => part.join(" . ")).join(" : ");
}

/** As calculate_delim() of nftables' expression.c has it. */
function elementsPerLine(key: NftSet["key"]): number {
  if (key.length > 1) return 1;
  if (key[0] === "mark") return 5;
  return key[0] === "ipv4_addr" ? 2 : 1;
}

function formatChain(chain: NftChain): string[] {
  const { type, hook, policy, rules } = chain;
  const priority = formatPriority(chain);
  return [
    `type ${type} hook ${hook} priority ${priority}; policy ${policy};`,
    ...rules.map(formatRule),
  ];
}

/** Priorities that have a name, and the only hook where it is used if it is not for all. */
const PRIORITIES: readonly {
  readonly name: string;
  readonly value: number;
  readonly hook?: NftChain["hook"];
}[] = [
  { name: "raw", value: -300 },
  { name: "mangle", value: -150 },
  { name: "dstnat", value: -100, hook: "prerouting" },
  { name: "filter", value: 0 },
  { name: "security", value: 50 },
  { name: "srcnat", value: 100, hook: "postrouting" },
];

/** A priority is shown by the name of one that is no further than this away. */
const REACH = 10;

function formatPriority({ priority, hook }: NftChain): string {
  const near = PRIORITIES.find(({ value }) =>
    Math.abs(priority - value) <= REACH
  );
  if (near === undefined || (near.hook ?? hook) !== hook) return `${priority}`;
  const offset = priority - near.value;
  if (offset === 0) return near.name;
  return `${near.name} ${offset < 0 ? "-" : "+"} ${Math.abs(offset)}`;
}
