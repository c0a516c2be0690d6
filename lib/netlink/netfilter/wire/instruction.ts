import type { Attributes } from "../../message/message_reader.ts";
import type { AttributeTree, AttributeValue } from "./attributes.ts";

/** One instruction: its name and its operands. The kernel's are compared with it; see `includesTree()`. */
export interface Expression {
  readonly name: string;
  /** Absent where it has none. */
  readonly data?: AttributeTree;
}

/** The attributes of each instruction in `<linux/netfilter/nf_tables.h>`: `cmp.sreg` is NFTA_CMP_SREG. */
const ATTRIBUTES = {
  bitwise: { sreg: 1, dreg: 2, len: 3, mask: 4, xor: 5 },
  byteorder: { sreg: 1, dreg: 2, op: 3, len: 4, size: 5 },
  cmp: { sreg: 1, op: 2, data: 3 },
  connlimit: { count: 1, flags: 2 },
  counter: { bytes: 1, packets: 2 },
  ct: { dreg: 1, key: 2, sreg: 4 },
  dynset: { set_name: 1, op: 3, sreg_key: 4, expr: 7 },
  exthdr: { type: 2, offset: 3, len: 4, op: 6, sreg: 7 },
  fib: { dreg: 1, result: 2, flags: 3 },
  immediate: { dreg: 1, data: 2 },
  limit: { rate: 1, unit: 2, burst: 3, type: 4, flags: 5 },
  lookup: { set: 1, sreg: 2, dreg: 3, flags: 5 },
  masq: {},
  match: { name: 1, rev: 2, info: 3 },
  meta: { dreg: 1, key: 2, sreg: 3 },
  objref: { imm_type: 1, imm_name: 2 },
  payload: {
    dreg: 1,
    base: 2,
    offset: 3,
    len: 4,
    sreg: 5,
    csum_type: 6,
    csum_offset: 7,
    csum_flags: 8,
  },
  reject: { type: 1, icmp_code: 2 },
  rt: { dreg: 1, key: 2 },
  target: { name: 1, rev: 2, info: 3 },
} as const;

/** Makes an instruction of its attributes by name; those that are undefined are left out. */
export function instruction<Name extends keyof typeof ATTRIBUTES>(
  name: Name,
  values: {
    readonly [Key in keyof typeof ATTRIBUTES[Name]]?:
      | AttributeValue
      | undefined;
  },
): Expression {
  const types: Readonly<Record<string, number>> = ATTRIBUTES[name];
  const data = Object.entries<AttributeValue | undefined>(values)
    .flatMap(([key, value]) => {
      const type = types[key];
      return type === undefined || value === undefined
        ? []
        : [[type, value] as const];
    });
  return { name, data };
}

const NFTA_EXPR_NAME = 1;
const NFTA_EXPR_DATA = 2;

/** The attributes that an instruction is sent in. */
export function expressionTree({ name, data }: Expression): AttributeTree {
  return data === undefined
    ? [[NFTA_EXPR_NAME, name]]
    : [[NFTA_EXPR_NAME, name], [NFTA_EXPR_DATA, data]];
}

/** Reads an instruction, also one that is never sent: its operands by name, or by number. */
export function operandsOf(
  found: Attributes,
): {
  readonly name: string;
  readonly operands: readonly (readonly [string, Uint8Array])[];
} {
  const name = found.string(NFTA_EXPR_NAME) ?? "";
  const types: Readonly<Record<string, Readonly<Record<string, number>>>> =
    ATTRIBUTES;
  const names = new Map(
    Object.entries(types[name] ?? {}).map(([key, type]) => [type, key]),
  );
  const data = found.nested(NFTA_EXPR_DATA);
  const operands = (data?.types() ?? []).map((type) =>
    [
      names.get(type) ?? `${type}`,
      data?.bytes(type) ?? new Uint8Array(),
    ] as const
  );
  return { name, operands };
}
