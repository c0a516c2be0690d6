import { Prefix } from "../../inet/mod.ts";
import { VPC_BLOCK_END_PRIORITY, VPC_BLOCK_PRIORITY } from "../../names/mod.ts";
import type { Rule } from "../../netlink/mod.ts";

/** What a block sends looks up a table. */
export interface BlockRule extends Rule {
  readonly source: Prefix;
}

/** So many blocks need no groups. */
const MOST_WITHOUT_GROUPS = 16;

/** So many rules of a group need no finer ones. */
const MOST_IN_GROUP = 4;

/** Networks of a length, each with a priority for the rules in it, from `first` on, and the next one. */
interface Level {
  readonly length: number;
  readonly first: number;
  /** How many have priorities of their own. Further ones share them, at the price of a longer row. */
  readonly places: number;
}

/** A subnet is a /16 at the most: its addresses differ in the last 16 bits, of which each level takes two. */
const LEVELS = levelsOf({ 18: 4, 20: 16, 22: 64, 24: 128, 26: 128, 28: 128 });

function levelsOf(placesByLength: Readonly<Record<number, number>>): Level[] {
  let next = VPC_BLOCK_PRIORITY + 2;
  return Object.entries(placesByLength).map(([length, places]) => {
    const first = next;
    next += 2 * places;
    return { length: Number(length), first, places };
  });
}

/**
 * The rules of one family's blocks, of any number. The kernel tries rules one by one for each packet, so many are put
 * into groups by the network of their source: a packet from elsewhere skips a group, one from there skips all others.
 * What leads to a group has a lower priority than the group. So no packet is lost when all is added before anything is
 * removed, and that is done in the order of priorities, as the kernel lists rules.
 */
export function groupBlockRules(rules: readonly BlockRule[]): Rule[] {
  const [rule] = rules;
  if (rule === undefined || rules.length <= MOST_WITHOUT_GROUPS) {
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
  if (level === undefined || rules.length <= MOST_IN_GROUP) {
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
