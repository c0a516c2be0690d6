import type { Address, Family, Prefix } from "../../../inet/mod.ts";
import {
  IPPROTO_ICMP,
  IPPROTO_ICMPV6,
  IPPROTO_IPIP,
  IPPROTO_IPV6,
  IPPROTO_TCP,
  IPPROTO_UDP,
  NFPROTO_IPV4,
  NFPROTO_IPV6,
} from "./constants.ts";
import {
  addressWrite,
  bitwiseAnd,
  compare,
  CT,
  ctLoad,
  hostToNetwork16,
  immediate,
  lookup,
  lookupValue,
  META,
  metaLoad,
  metaSet,
  NFT_REG_1,
  payloadLoad,
  type PayloadPart,
  registerAt,
  routeTcpMss,
  writeTcpMaxseg,
} from "./expressions.ts";
import {
  type FieldSource,
  HEADER_ADDRESSES,
  interfaceBytes,
  sourceOf,
} from "./fields.ts";
import { addToSet } from "./set_updates.ts";
import { hostU32, simpleExpressions } from "./simple_statements.ts";
import type {
  NftCtState,
  NftField,
  NftHeaderAddress,
  NftIcmpv6Type,
  NftL4proto,
  NftRule,
  NftStatement,
} from "../model/model.ts";
import type { Expression } from "./instruction.ts";

const NFPROTO: Readonly<Record<Family, number>> = {
  ipv4: NFPROTO_IPV4,
  ipv6: NFPROTO_IPV6,
};

const L4PROTO: Readonly<Record<NftL4proto, number>> = {
  icmp: IPPROTO_ICMP,
  ipencap: IPPROTO_IPIP,
  tcp: IPPROTO_TCP,
  udp: IPPROTO_UDP,
  ipv6: IPPROTO_IPV6,
  "ipv6-icmp": IPPROTO_ICMPV6,
};

/** NF_CT_STATE_BIT() and NF_CT_STATE_UNTRACKED_BIT of `<linux/netfilter/nf_conntrack_common.h>`. */
const CT_STATE: Readonly<Record<NftCtState, number>> = {
  invalid: 1,
  established: 2,
  related: 4,
  new: 8,
  untracked: 64,
};

/** RFC 4861, section 4. */
const ICMPV6_TYPE: Readonly<Record<NftIcmpv6Type, number>> = {
  "nd-router-solicit": 133,
  "nd-router-advert": 134,
  "nd-redirect": 137,
};
/** RFC 4443, section 2.1. */
const ICMPV6_TYPE_FIELD = { base: "transport", offset: 0, length: 1 } as const;

/** The flags of a TCP header and two of them, RFC 9293 section 3.1. */
const TCP_FLAGS = { base: "transport", offset: 13, length: 1 } as const;
const TCP_SYN = 0x02;
const TCP_RST = 0x04;
/** The ports of a UDP or TCP header, RFC 768 and RFC 9293 section 3.1. */
const SPORT = { base: "transport", offset: 0, length: 2 } as const;
const DPORT = { base: "transport", offset: 2, length: 2 } as const;

/**
 * The instructions of a rule. Tests of family and protocol that a statement
 * needs are put in before it, unless one stands there already, as nft does.
 *
 * @throws {TypeError} when the rule contradicts itself or reads a field where it need not be
 * @throws {RangeError} when a number or name is out of range
 */
export function encodeRule(rule: NftRule): Expression[] {
  const encoder = new RuleEncoder();
  for (const statement of rule.statements) encoder.add(statement);
  return encoder.expressions;
}

class RuleEncoder {
  readonly expressions: Expression[] = [];
  /** What is known of the packet so far. */
  #family: Family | undefined;
  #l4proto: NftL4proto | undefined;

  add(statement: NftStatement): void {
    switch (statement.kind) {
      case "ifname":
        return this.#compare(
          sourceOf(statement.field),
          { ...statement, bytes: interfaceBytes(statement.name) },
        );
      case "address":
        return this.#address(statement);
      case "prefix":
        return this.#prefix(statement);
      case "lookup":
        this.#loadKey(statement.fields);
        this.expressions.push(lookup(statement.set, statement));
        return;
      case "addToSet":
        this.#loadKey(statement.fields);
        this.expressions.push(
          addToSet(statement.set, statement),
        );
        return;
      case "setAddress":
        return this.#setAddress(statement);
      case "setByMap":
        return this.#setByMap(statement);
      case "icmpv6Type":
        return this.#icmpv6Type(statement.type);
      case "nfproto":
        return this.#needFamily(statement.family);
      case "l4proto":
        return this.#needL4proto(statement.protocol);
      case "udpDport":
        return this.#port("udp", { part: DPORT, port: statement.port });
      case "udpSport":
        return this.#port("udp", { part: SPORT, port: statement.port });
      case "tcpDport":
        return this.#port("tcp", { part: DPORT, port: statement.port });
      case "tcpSportBelow":
        return this.#port("tcp", {
          part: SPORT,
          op: "lt",
          port: statement.port,
        });
      case "tcpNotSyn":
        return this.#tcpNotSyn();
      case "ctState":
        return this.#ctState(statement.states);
      case "clampMss":
        return this.#clampMss();
      default:
        this.expressions.push(...simpleExpressions(statement));
    }
  }

  #compare(
    source: FieldSource,
    options: { readonly bytes: Uint8Array; readonly not: boolean },
  ): void {
    this.#require(source);
    this.expressions.push(
      source.load(NFT_REG_1),
      compare(options.not ? "neq" : "eq", options.bytes),
    );
  }

  #address(options: { field: NftField; address: Address; not: boolean }): void {
    const { field, address, not } = options;
    const source = sourceOf(field);
    const bytes = address.toBytes();
    if (bytes.byteLength !== source.size) {
      throw new TypeError(`Cannot compare "${field}" with "${address}"`);
    }
    this.#compare(source, { bytes, not });
  }

  /** As nft does: only the bytes of the prefix, where it has whole ones; else all, with a mask. */
  #prefix(
    { field, prefix, not }: {
      readonly field: NftField;
      readonly prefix: Prefix;
      readonly not: boolean;
    },
  ): void {
    const source = sourceOf(field);
    const bytes = prefix.address.toBytes();
    const { length } = prefix;
    if (bytes.byteLength !== source.size || length === 0) {
      throw new TypeError(`Cannot compare "${field}" with "${prefix}"`);
    }
    this.#require(source);
    const isWhole = length % 8 === 0;
    const size = isWhole ? length / 8 : source.size;
    this.expressions.push(
      source.load(NFT_REG_1, size),
      ...isWhole ? [] : [bitwiseAnd(maskBytes(length, size))],
      compare(not ? "neq" : "eq", bytes.subarray(0, size)),
    );
  }

  #setAddress(
    { field, address }: {
      readonly field: NftHeaderAddress;
      readonly address: Address;
    },
  ): void {
    this.#needFamily(address.family);
    const part = HEADER_ADDRESSES[field];
    this.expressions.push(immediate(address.toBytes()), addressWrite(part));
  }

  #setByMap(
    { target, field, map }: Extract<NftStatement, { kind: "setByMap" }>,
  ): void {
    this.#require(sourceOf(target));
    this.#loadKey([field]);
    this.expressions.push(
      lookupValue(map),
      target === "meta mark"
        ? metaSet(META.mark)
        : addressWrite(HEADER_ADDRESSES[target]),
    );
  }

  /** Loads the fields one behind the other. */
  #loadKey(fields: readonly NftField[]): void {
    const sources = fields.map(sourceOf);
    for (const source of sources) this.#require(source);
    let offset = 0;
    for (const source of sources) {
      this.expressions.push(source.load(registerAt(offset)));
      offset += source.size;
    }
  }

  #require(source: FieldSource): void {
    if (source.family !== undefined) this.#needFamily(source.family);
    if (source.inUdp === true && this.#l4proto !== "udp") {
      throw new TypeError(
        "Cannot look into a datagram: the rule does not test for UDP before",
      );
    }
  }

  #needFamily(family: Family): void {
    if (!isNews(family, this.#family)) return;
    this.#family = family;
    this.expressions.push(
      metaLoad(META.nfproto, NFT_REG_1),
      compare("eq", Uint8Array.of(NFPROTO[family])),
    );
  }

  #needL4proto(protocol: NftL4proto): void {
    if (!isNews(protocol, this.#l4proto)) return;
    this.#l4proto = protocol;
    this.expressions.push(
      metaLoad(META.l4proto, NFT_REG_1),
      compare("eq", Uint8Array.of(L4PROTO[protocol])),
    );
  }

  #port(
    protocol: "udp" | "tcp",
    { part, op = "eq", port }: {
      readonly part: PayloadPart;
      readonly op?: "eq" | "lt";
      readonly port: number;
    },
  ): void {
    if (!Number.isInteger(port) || port < 0 || port > 0xffff) {
      throw new RangeError(
        `Cannot use ${protocol.toUpperCase()} port ${port}: not in 0..65535`,
      );
    }
    this.#needL4proto(protocol);
    this.expressions.push(
      payloadLoad(part, NFT_REG_1),
      compare(op, Uint8Array.of(port >> 8, port & 0xff)),
    );
  }

  #tcpNotSyn(): void {
    this.#needL4proto("tcp");
    this.expressions.push(
      payloadLoad(TCP_FLAGS, NFT_REG_1),
      bitwiseAnd(Uint8Array.of(TCP_SYN)),
      compare("eq", Uint8Array.of(0)),
    );
  }

  #icmpv6Type(type: NftIcmpv6Type): void {
    this.#needFamily("ipv6");
    this.#needL4proto("ipv6-icmp");
    this.expressions.push(
      payloadLoad(ICMPV6_TYPE_FIELD, NFT_REG_1),
      compare("eq", Uint8Array.of(ICMPV6_TYPE[type])),
    );
  }

  #ctState(states: readonly NftCtState[]): void {
    if (states.length === 0) {
      throw new TypeError("Cannot test for a connection state: none is given");
    }
    const mask = states.reduce((bits, state) => bits | CT_STATE[state], 0);
    this.expressions.push(
      ctLoad(CT.state, NFT_REG_1),
      bitwiseAnd(hostU32(mask)),
      compare("neq", hostU32(0)),
    );
  }

  #clampMss(): void {
    this.#needL4proto("tcp");
    this.expressions.push(
      payloadLoad(TCP_FLAGS, NFT_REG_1),
      bitwiseAnd(Uint8Array.of(TCP_SYN | TCP_RST)),
      compare("eq", Uint8Array.of(TCP_SYN)),
      routeTcpMss(),
      hostToNetwork16(),
      writeTcpMaxseg(),
    );
  }
}

/** Whether the rule has no test yet for that. @throws {TypeError} when it has one for another */
function isNews<T extends string>(wanted: T, known: T | undefined): boolean {
  if (known === undefined || known === wanted) return known === undefined;
  throw new TypeError(`Cannot test for ${wanted}: the rule is about ${known}`);
}

/** So many ones, then zeros. */
function maskBytes(length: number, size: number): Uint8Array {
  return Uint8Array.from({ length: size }, (_, index) => {
    const ones = Math.min(8, Math.max(0, length - index * 8));
    return 0xff << (8 - ones);
  });
}
