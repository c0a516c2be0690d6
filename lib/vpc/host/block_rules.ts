import { Prefix } from "../../inet/mod.ts";
import { VPC_BLOCK_END_PRIORITY, VPC_BLOCK_PRIORITY } from "../../names/mod.ts";
import type { Rule } from "../../netlink/mod.ts";

/** What a block sends looks up a table. */
export interface BlockRule extends Rule {
  readonly source: Prefix;
}

/** So many rules may stand one after the other. */
const MOST_IN_A_ROW = 16;

/** Networks of a length, each with a priority for the rules in it, from `first` on, and the next one. */
interface Level {
  readonly length: number;
  readonly first: number;
  /** How many have priorities of their own. Further ones share them, at the price of a longer row. */
  readonly places: number;
}

/** A subnet is a /16 at the most: its addresses differ in the last 16 bits, of which each level takes four. */
const LEVELS: readonly Level[] = [
  { length: 20, first: VPC_BLOCK_PRIORITY + 2, places: 16 },
  { length: 24, first: VPC_BLOCK_PRIORITY + 34, places: 256 },
  { length: 28, first: VPC_BLOCK_PRIORITY + 546, places: 256 },
];

/**
 * The rules of one family's blocks, of any number. The kernel tries rules one by one for each packet, so many are put
 * into groups by the network of their source: a packet from elsewhere skips a group, one from there skips all others.
 * What leads to a group has a lower priority than the group. So no packet is lost when all is added before anything is
 * removed, and that is done in the order of priorities, as the kernel lists rules.
 */
export function groupBlockRules(rules: readonly BlockRule[]): Rule[] {
  const [rule] = rules;
  if (rule === undefined || rules.length <= MOST_IN_A_ROW) {
    return at(VPC_BLOCK_PRIORITY, rules);
  }
  return [
    ...row(rules, VPC_BLOCK_PRIORITY, LEVELS),
    { ...other(rule), priority: VPC_BLOCK_END_PRIORITY, isNop: true },
  ];
}

function at(priority: number, rules: readonly BlockRule[]): Rule[] {
  return rules.map((rule) => ({ ...rule, priority }));
}

/** Rules of one priority, and the groups that they lead to. A packet that none of them is for skips all others. */
function row(
  rules: readonly BlockRule[],
  priority: number,
  [level, ...finer]: readonly Level[],
): Rule[] {
  const [rule] = rules;
  if (rule === undefined) return [];
  const end = {
    ...other(rule),
    priority: priority + 1,
    goto: VPC_BLOCK_END_PRIORITY,
  };
  if (level === undefined || rules.length <= MOST_IN_A_ROW) {
    return [...at(priority, rules), end];
  }
  const networks = Map.groupBy(
    rules,
    ({ source }) => Prefix.of(source.address, level.length).toString(),
  );
  if (networks.size === 1) return row(rules, priority, finer);
  const groups = [...networks].flatMap(([text, members]) => {
    if (members.length === 1) return at(priority, members);
    const source = Prefix.parse(text);
    const place = (source.address.value >> BigInt(source.hostBits)) %
      BigInt(level.places);
    const goto = level.first + 2 * Number(place);
    return [
      ...row(members, goto, finer),
      { ...other(rule), priority, source, goto },
    ];
  });
  return [...groups, end];
}

/** A rule that looks up nothing. */
function other({ family, protocol }: Rule): Omit<Rule, "priority"> {
  return { family, protocol, table: 0 };
}
