import {
  bitwiseAnd,
  bitwiseOr,
  compare,
  countWith,
  CT,
  ctLoad,
  ctSet,
  immediate,
  masq,
  META,
  metaLoad,
  metaSet,
  NFT_REG_1,
  rejectIcmpx,
  reversePathLoad,
  untrack,
  verdict,
} from "./expressions.ts";
import type { NftRejectCode, NftStatement } from "../model/model.ts";
import { matchRandom, matchUnconfirmed } from "./set_updates.ts";
import { sourceOf } from "./fields.ts";
import type { Expression } from "./instruction.ts";

/** `enum nft_reject_inet_code`. */
const REJECT_CODE: Readonly<Record<NftRejectCode, number>> = {
  "host-unreachable": 2,
  "admin-prohibited": 3,
};

/** IP_CT_DIR_ORIGINAL and IP_CT_DIR_REPLY. */
const CT_DIRECTION = { original: 0, reply: 1 } as const;

/** The statements that need to know nothing of the packet. */
export type SimpleStatement = Extract<
  NftStatement,
  {
    kind:
      | "ifindex"
      | "iifgroup"
      | "mark"
      | "reversePath"
      | "ctDirection"
      | "ctUnconfirmed"
      | "random"
      | "counter"
      | "verdict"
      | "masquerade"
      | "reject"
      | "setCtMark"
      | "setMetaMark"
      | "setMarkBits"
      | "restoreMark"
      | "saveMark"
      | "notrack";
  }
>;

/** The instructions of such a statement. */
export function simpleExpressions(statement: SimpleStatement): Expression[] {
  switch (statement.kind) {
    case "ifindex":
      return compareBits(metaLoad(META[statement.field], NFT_REG_1), {
        value: statement.index,
      });
    case "iifgroup":
      return compareBits(metaLoad(META.iifgroup, NFT_REG_1), {
        ...statement,
        value: statement.group,
      });
    case "mark":
      return compareBits(sourceOf(statement.field).load(NFT_REG_1), {
        ...statement,
        value: statement.mark,
      });
    case "reversePath":
      return [
        reversePathLoad(NFT_REG_1),
        compare("eq", hostU32(statement.exists ? 1 : 0)),
      ];
    case "ctDirection":
      return [
        ctLoad(CT.direction, NFT_REG_1),
        compare("eq", Uint8Array.of(CT_DIRECTION[statement.direction])),
      ];
    case "ctUnconfirmed":
      return matchUnconfirmed();
    case "random":
      return matchRandom(statement.below);
    case "counter":
      return [countWith(statement.name)];
    case "verdict":
      return [verdict(statement.verdict)];
    case "masquerade":
      return [masq()];
    case "reject":
      return [rejectIcmpx(REJECT_CODE[statement.code])];
    case "setCtMark":
      return [immediate(hostU32(statement.mark)), ctSet(CT.mark)];
    case "setMetaMark":
      return [immediate(hostU32(statement.mark)), metaSet(META.mark)];
    case "setMarkBits":
      return setMarkBits(statement);
    case "restoreMark":
      return [ctLoad(CT.mark, NFT_REG_1), metaSet(META.mark)];
    case "saveMark":
      return [metaLoad(META.mark, NFT_REG_1), ctSet(CT.mark)];
    case "notrack":
      return [untrack()];
  }
}

/** Compares a number of 32 bits, or those of its bits that are in a mask. */
function compareBits(
  load: Expression,
  { value, mask, not = false }: {
    readonly value: number;
    readonly mask?: number;
    readonly not?: boolean;
  },
): Expression[] {
  return [
    load,
    ...mask === undefined ? [] : [bitwiseAnd(hostU32(mask))],
    compare(not ? "neq" : "eq", hostU32(value)),
  ];
}

function setMarkBits(
  { field, bits }: Extract<SimpleStatement, { kind: "setMarkBits" }>,
): Expression[] {
  return [
    sourceOf(field).load(NFT_REG_1),
    bitwiseOr(hostU32(bits)),
    field === "ct mark" ? ctSet(CT.mark) : metaSet(META.mark),
  ];
}

/** Four bytes in the machine's order, as marks are. @throws {RangeError} when the number has more bits */
export function hostU32(value: number): Uint8Array {
  if (!Number.isInteger(value) || value < 0 || value > 0xffffffff) {
    throw new RangeError(`Cannot use mark ${value}: not a 32-bit number`);
  }
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}
