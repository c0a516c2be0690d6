import type { Address, Family } from "../../inet/mod.ts";
import {
  NLM_F_CREATE,
  NLM_F_EXCL,
  NLM_F_REPLACE,
  RTM_DELADDR,
  RTM_NEWADDR,
} from "../message/constants.ts";
import {
  familyNumber,
  familyOf,
  parseIp,
  unspecified,
} from "../message/family.ts";
import type { Message } from "../message/message_reader.ts";
import type { MessageWriter } from "../message/message_writer.ts";
import type { Request } from "../message/request.ts";
import { type Scope, scopeNumber, scopeOf } from "../connection/scope.ts";

/** Attributes of `<linux/if_addr.h>`. */
const IFA_ADDRESS = 1;
const IFA_LOCAL = 2;
const IFA_LABEL = 3;
const IFA_FLAGS = 8;
/** Flags of `<linux/if_addr.h>`. */
const IFA_F_NODAD = 0x02;
const IFA_F_DADFAILED = 0x08;
const IFA_F_TENTATIVE = 0x40;
const IFA_F_PERMANENT = 0x80;
const IFA_F_NOPREFIXROUTE = 0x200;
/** struct ifaddrmsg. */
const IFADDRMSG_SIZE = 8;

/** An address with the length of the network around it; unlike a `Prefix` it keeps its host bits. */
export interface InterfaceAddress {
  /** The address itself. */
  readonly address: Address;
  /** The length of the network's prefix in bits. */
  readonly length: number;
}

/** An address of a link as the kernel describes it. */
export interface AddressEntry {
  /** The index of the link. */
  readonly index: number;
  /** The family of the address. */
  readonly family: Family;
  /** The address with its network. */
  readonly prefix: InterfaceAddress;
  /** How far the address is good for. */
  readonly scope: Scope | number;
  /** The other end's address, of a point-to-point address. */
  readonly peer?: Address | undefined;
  /** The name that old tools show for it; IPv4 only. */
  readonly label?: string | undefined;
  /** Whether it never expires. */
  readonly permanent: boolean;
  /** Whether duplicate address detection still runs, so that it cannot be used. */
  readonly tentative: boolean;
  /** Whether duplicate address detection found another owner. */
  readonly dadFailed: boolean;
  /** The IFA_F_… flags of `<linux/if_addr.h>`. */
  readonly flags: number;
}

/** Which address of which link. */
export interface AddressTarget {
  /** The index of the link. */
  readonly index: number;
  /** The address with its network. */
  readonly prefix: InterfaceAddress;
}

/** An address to add. */
export interface NewAddress extends AddressTarget {
  /** `global` unless given. */
  readonly scope?: "global" | "link" | "host";
  /** Uses an IPv6 address at once, without duplicate address detection. No effect on IPv4. */
  readonly noDad?: boolean;
  /** Leaves out the route to the network around the address. */
  readonly noPrefixRoute?: boolean;
  /** Is content when the address is there already. */
  readonly replace?: boolean;
}

/** Adds an address to a link. Refused with EEXIST when it is there, unless `replace`. */
export function addressAdd(address: NewAddress): Request {
  const exists = address.replace === true ? NLM_F_REPLACE : NLM_F_EXCL;
  return {
    type: RTM_NEWADDR,
    flags: NLM_F_CREATE | exists,
    describe: () => {
      const { index, prefix: { address: ip, length } } = address;
      return `add address "${ip}/${length}" to link ${index}`;
    },
    write(writer) {
      writeAddress(writer, address, scopeNumber(address.scope ?? "global"));
      const flags = (address.noDad === true ? IFA_F_NODAD : 0) |
        (address.noPrefixRoute === true ? IFA_F_NOPREFIXROUTE : 0);
      if (flags !== 0) writer.attributeU32(IFA_FLAGS, flags);
    },
  };
}

/** Takes an address from a link. Refused with EADDRNOTAVAIL when it is not there. */
export function addressDelete(target: AddressTarget): Request {
  const { index, prefix: { address, length } } = target;
  return {
    type: RTM_DELADDR,
    flags: 0,
    describe: () => `delete address "${address}/${length}" from link ${index}`,
    write: (writer) => writeAddress(writer, target, 0),
  };
}

/** Writes the filter of an address dump. */
export function writeAddressFilter(
  writer: MessageWriter,
  filter: { index?: number; family?: Family },
): void {
  writeAddressHeader(writer, [familyNumber(filter.family), 0, 0, 0]);
  writer.u32(filter.index ?? 0);
}

/**
 * Reads an RTM_NEWADDR; undefined when it is not of IP.
 *
 * @throws {SyntaxError} when the message is malformed
 */
export function parseAddress(message: Message): AddressEntry | undefined {
  const { payload } = message;
  const attributes = payload.attributes(IFADDRMSG_SIZE);
  const family = familyOf(payload.u8(0));
  if (family === undefined) return undefined;
  const flags = attributes.u32(IFA_FLAGS) ?? payload.u8(2);
  const outer = parseIp(attributes.bytes(IFA_ADDRESS), family);
  const local = parseIp(attributes.bytes(IFA_LOCAL), family);
  // IFA_LOCAL is the address itself; IFA_ADDRESS is the same, or the peer's,
  // and stands alone in IPv6 (comment in <linux/if_addr.h>).
  const isPeer = local !== undefined && outer !== undefined &&
    !outer.equals(local);
  return {
    index: payload.i32(4),
    family,
    prefix: {
      address: local ?? outer ?? unspecified(family),
      length: payload.u8(1),
    },
    scope: scopeOf(payload.u8(3)),
    peer: isPeer ? outer : undefined,
    label: attributes.string(IFA_LABEL),
    permanent: (flags & IFA_F_PERMANENT) !== 0,
    tentative: (flags & IFA_F_TENTATIVE) !== 0,
    dadFailed: (flags & IFA_F_DADFAILED) !== 0,
    flags,
  };
}

/** Writes which address of which link. */
export function writeAddress(
  writer: MessageWriter,
  { index, prefix }: AddressTarget,
  scope: number,
): void {
  const family = familyNumber(prefix.address.family);
  writeAddressHeader(writer, [family, prefix.length, 0, scope]);
  writer.u32(index);
  const bytes = prefix.address.toBytes();
  writer.attributeBytes(IFA_LOCAL, bytes);
  writer.attributeBytes(IFA_ADDRESS, bytes);
}

/** The first four bytes of `struct ifaddrmsg`: family, length, flags, scope. */
function writeAddressHeader(
  writer: MessageWriter,
  bytes: readonly [number, number, number, number],
): void {
  for (const byte of bytes) writer.u8(byte);
}
