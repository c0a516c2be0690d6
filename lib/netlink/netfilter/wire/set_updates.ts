/**
 * Instructions for sets that rules fill, and for choosing what they are filled with.
 *
 * @module
 */

import { bigEndian, bigEndian64 } from "./attributes.ts";
import {
  bitwiseAnd,
  compare,
  CT,
  ctLoad,
  META,
  metaLoad,
  NFT_REG_1,
} from "./expressions.ts";
import type { NftRate } from "../model/model.ts";
import { type Expression, expressionTree, instruction } from "./instruction.ts";

/** NFT_DYNSET_OP_ADD: an element that is there already stays as it is, its timeout too. */
const OP_ADD = 0;
/** NFT_CONNLIMIT_F_INV and NFT_LIMIT_F_INV: more than so many, instead of as many at most. */
const OVER = 1;

/** Counter of each element of a set. */
interface Counted {
  readonly connectionsOver?: number;
  readonly rateOver?: NftRate;
}

/**
 * Adds the registers from the first on to a set, `dynset` of nf_tables. With
 * a number of connections each element counts those that it was added for
 * (`connlimit`), and the rule ends unless more than so many are alive. With a
 * rate (`limit`) it ends unless the element is added more often.
 */
export function addToSet(set: string, counted: Counted): Expression {
  const counting = countingOf(counted);
  return instruction("dynset", {
    sreg_key: NFT_REG_1,
    op: OP_ADD,
    set_name: set,
    expr: counting && expressionTree(counting),
  });
}

function countingOf(
  { connectionsOver, rateOver }: Counted,
): Expression | undefined {
  if (connectionsOver !== undefined) {
    return instruction("connlimit", { count: connectionsOver, flags: OVER });
  }
  if (rateOver === undefined) return undefined;
  return instruction("limit", {
    rate: bigEndian64(BigInt(rateOver.perSecond)),
    unit: bigEndian64(1n), // of seconds
    burst: rateOver.burst,
    type: 0, // NFT_LIMIT_PKTS
    flags: OVER,
  });
}

/** IPS_CONFIRMED of `<linux/netfilter/nf_conntrack_common.h>`, in the machine's order. */
const CONFIRMED = Uint8Array.of(8, 0, 0, 0);

/** Ends the rule unless the packet is the first of its connection. */
export function matchUnconfirmed(): Expression[] {
  return [
    ctLoad(CT.status, NFT_REG_1),
    bitwiseAnd(CONFIRMED),
    compare("eq", new Uint8Array(4)),
  ];
}

/** Ends the rule unless a random number is less: bytes are compared one by one, so big-endian. */
export function matchRandom(below: number): Expression[] {
  return [
    metaLoad(META.random, NFT_REG_1),
    compare("lt", bigEndian(below)),
  ];
}
