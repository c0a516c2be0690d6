import {
  type DualStack,
  embedIpv4,
  type Family,
  Prefix,
} from "../../inet/mod.ts";
import type { Eni, Grant } from "./eni.ts";

/** A grant of EC2 as a block of addresses for pods. */
export interface EniBlock {
  /** The same for the same grant in all processes. */
  readonly name: string;
  /** Another one when EC2 grants again what was given back. */
  readonly uid: string;
  /** Its order: low devices first. */
  readonly index: number;
  readonly prefixes: DualStack<Prefix>;
  readonly eni: string;
  readonly device: number;
  /** Whether EC2 and the metadata service show it: only then pods get addresses of it. */
  readonly usable: boolean;
}

/** Numbers of the grants that are there. EC2 gives a grant no identity of its own. */
export interface GrantNumbers {
  readonly next: number;
  readonly numbers: ReadonlyMap<string, number>;
  /** The /80 of each ENI, in which its blocks have their IPv6 addresses. */
  readonly prefixes: ReadonlyMap<string, string>;
}

/** The state before anything was seen. */
export const NO_GRANTS: GrantNumbers = {
  next: 1,
  numbers: new Map(),
  prefixes: new Map(),
};

/** How many addresses a subnet of a VPC has at the most, a /16: the distance between devices. */
const DEVICE_STEP = 65_536;

/** The length of an ENI's IPv6 prefix; EC2 delegates no other. */
const IPV6_LENGTH = 80;

/**
 * Numbers what EC2 has granted to ENIs with a device. A grant keeps its number until neither list shows it there, until
 * its ENI has another /80, or until it was given back: `returned` has the names of blocks that were since the last time. The metadata service may go
 * on showing those.
 */
export function numberGrants(
  before: GrantNumbers,
  enis: readonly Eni[],
  returned: ReadonlySet<string> = new Set(),
): GrantNumbers {
  let { next } = before;
  const numbers = new Map<string, number>();
  const prefixes = new Map<string, string>();
  for (const { id, device, grants, ipv6 } of enis) {
    // What was detached has no blocks: it gives others when it is attached again.
    if (device === undefined) continue;
    const prefix = String(ipv6?.block);
    prefixes.set(id, prefix);
    const isSame = before.prefixes.get(id) === prefix;
    for (const { block, inEc2 } of grants) {
      const name = grantName(id, block);
      const isKnown = isSame && !returned.has(name);
      const known = isKnown ? before.numbers.get(name) : undefined;
      if (known !== undefined) numbers.set(name, known);
      else if (inEc2) numbers.set(name, next++);
    }
  }
  return { next, numbers, prefixes };
}

/** The name of the block that an ENI's grant is. */
export function grantName(eni: string, block: Prefix): string {
  return `${eni}/${block}`;
}

/** The ENI that a block of this name is of. */
export function grantEni(name: string): string {
  return name.slice(0, name.indexOf("/"));
}

/** The grant that a block of this name is of: that of IPv4 where pods get both families. */
export function grantOf(name: string): Prefix {
  return Prefix.parse(name.slice(name.indexOf("/") + 1));
}

/** What pods get addresses of by a grant of EC2; undefined while that is not known of a family. */
export function prefixesOf(
  { ipv6 }: Pick<Eni, "ipv6">,
  block: Prefix,
  families: readonly Family[],
): DualStack<Prefix> | undefined {
  if (!families.includes("ipv4")) return { ipv6: block };
  if (!families.includes("ipv6")) return { ipv4: block };
  if (ipv6 === undefined) return undefined;
  return { ipv4: block, ipv6: ipv6Of(ipv6.block, block) };
}

export interface BlockOptions {
  readonly numbers: GrantNumbers;
  /** The subnet of an ENI by its ID. */
  readonly subnets: ReadonlyMap<string, Prefix>;
  /** Blocks of which nothing is given yet, by {@linkcode doubtfulBlocks}. */
  readonly doubtful: ReadonlySet<string>;
  /** Of which families pods get addresses. */
  readonly families: readonly Family[];
}

/** The blocks of an ENI with a device. */
export function blocksOf(eni: Eni, options: BlockOptions): EniBlock[] {
  const { id, device, ec2, ipv6 } = eni;
  if (device === undefined) return [];
  const hasIpv6 = options.families.includes("ipv6");
  // An ENI that EC2 no longer has, or takes away, gives nothing more.
  const gives = ec2?.attachment?.state === "attached" &&
    ec2.ownership !== "foreign" && (!hasIpv6 || isShown(ipv6));
  return eni.grants.flatMap((grant) => {
    const { block } = grant;
    const prefixes = prefixesOf(eni, block, options.families);
    const name = grantName(id, block);
    const number = options.numbers.numbers.get(name);
    if (number === undefined || prefixes === undefined) return [];
    return [{
      name,
      uid: `${name}#${number}`,
      index: indexOf(device, block, options.subnets.get(id)),
      prefixes,
      eni: id,
      device,
      usable: gives && isShown(grant) &&
        !options.doubtful.has(String(block)),
    }];
  });
}

function isShown(grant: Grant | undefined): boolean {
  return grant !== undefined && grant.inEc2 && grant.inImds;
}

function indexOf(
  device: number,
  block: Prefix,
  subnet: Prefix | undefined,
): number {
  const place = subnet?.contains(block) ? subnet.indexOf(block.address) : 0n;
  return device * DEVICE_STEP + Number(place);
}

/**
 * The IPv6 addresses that belong to IPv4 addresses of the same ENI: its /80, with the IPv4 address as the last 32 bits.
 * There is nothing to remember, and a /28 has a /124.
 *
 * @throws {RangeError} when the ENI's prefix is not a /80
 */
export function ipv6Of(prefix: Prefix, block: Prefix): Prefix {
  if (prefix.length !== IPV6_LENGTH || prefix.family !== "ipv6") {
    throw new RangeError(
      `Cannot take IPv6 addresses of "${prefix}": an ENI's prefix is a /${IPV6_LENGTH}`,
    );
  }
  return embedIpv4(prefix, block);
}
