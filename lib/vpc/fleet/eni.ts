import { Address, FAMILIES, type Family, Prefix } from "../../inet/mod.ts";

/** Content of an ENI's slot: one address (/32), or a delegated prefix of 16 (/28). */
export type BlockKind = "address" | "prefix";

/** Addresses in a delegated IPv4 prefix: EC2 delegates /28 only. */
export const PREFIX_SIZE = 16;

/** How many addresses an IPv4 block of this kind has. */
export function sizeOf(kind: BlockKind): number {
  return kind === "prefix" ? PREFIX_SIZE : 1;
}

/** The kind of an IPv4 block. */
export function kindOf(block: Prefix): BlockKind {
  return block.hostBits === 0 ? "address" : "prefix";
}

/**
 * What coild may do with an ENI:
 *
 * - `primary`: the instance's first; gives addresses and stays
 * - `owned`: made by coild for this node, by its tags
 * - `adopted`: attached by an admin or another program; gives addresses and stays
 * - `foreign`: only counts for the limit of the instance
 */
export type Ownership = "primary" | "owned" | "adopted" | "foreign";

/** An ENI's connection to the instance. */
export interface EniAttachment {
  readonly id: string;
  readonly device: number;
  readonly state: "attaching" | "attached" | "detaching";
  /** When it began, by the clock of the caller. */
  readonly since: number;
  /** EC2's DeleteOnTermination. */
  readonly endsWithInstance: boolean;
}

/** An ENI as DescribeNetworkInterfaces shows it. */
export interface Ec2Eni {
  readonly id: string;
  readonly subnet: string;
  readonly ownership: Ownership;
  /** Its primary address, which no pod gets. */
  readonly address: Address;
  /** Undefined while no instance has it. */
  readonly attachment?: EniAttachment | undefined;
  /** Secondary addresses as /32, and delegated IPv4 prefixes. */
  readonly blocks: readonly Prefix[];
  /** The delegated IPv6 prefix, a /80. */
  readonly ipv6?: Prefix | undefined;
}

/** An ENI as the instance metadata service shows it. */
export interface ImdsEni {
  readonly id: string;
  readonly device: number;
  /** That of its IPv4 addresses; undefined where it has none. */
  readonly subnet?: Prefix | undefined;
  /** As of EC2; the primary address may be among them. */
  readonly blocks: readonly Prefix[];
  readonly ipv6?: Prefix | undefined;
}

/** A block of an ENI, and where it is shown. One that neither shows is gone. */
export interface Grant {
  readonly block: Prefix;
  readonly inEc2: boolean;
  readonly inImds: boolean;
}

/** An ENI as both show it. */
export interface Eni {
  readonly id: string;
  /** Undefined when only the metadata service shows it: it was detached, or EC2's list is behind. */
  readonly ec2?: Ec2Eni | undefined;
  readonly device?: number | undefined;
  readonly inImds: boolean;
  /** What pods get addresses of, in the order of their addresses: IPv4, or part of the ENI's /80 where pods have IPv6 alone. */
  readonly grants: readonly Grant[];
  /** The ENI's /80; undefined where pods have IPv4 alone. */
  readonly ipv6?: Grant | undefined;
}

/**
 * The part of an ENI's /80 that has the addresses of pods with IPv6 alone: 4,096. Its first addresses are no pods': a
 * network's first one belongs to its routers.
 */
const PODS6 = { offset: 0x1000n, length: 116 };

/** How many pods there is room for where they have IPv6 alone. */
export const PODS6_CAPACITY: number = 2 ** (128 - PODS6.length);

/**
 * Brings together what EC2 and the metadata service show, lowest device first, those without one last. `families` are
 * those of pods: what they do not need is left out.
 */
export function mergeEnis(
  ec2: readonly Ec2Eni[],
  imds: readonly ImdsEni[],
  families: readonly Family[] = FAMILIES,
): Eni[] {
  const merge = (id: string, ...shown: [Ec2Eni?, ImdsEni?]) =>
    forPods(mergeEni(id, ...shown), families);
  const shown = new Map(imds.map((eni) => [eni.id, eni]));
  const known = new Set(ec2.map(({ id }) => id));
  const unknown = imds.filter(({ id }) => !known.has(id));
  return [
    ...ec2.map((eni) => merge(eni.id, eni, shown.get(eni.id))),
    ...unknown.map((eni) => merge(eni.id, undefined, eni)),
  ].sort((a, b) => (a.device ?? Infinity) - (b.device ?? Infinity) || 0);
}

function forPods(eni: Eni, families: readonly Family[]): Eni {
  const { ipv6 } = eni;
  if (!families.includes("ipv6")) return { ...eni, ipv6: undefined };
  if (families.includes("ipv4")) return eni;
  if (ipv6 === undefined) return { ...eni, grants: [] };
  const first = ipv6.block.address.value + PODS6.offset;
  const block = Prefix.of(Address.of("ipv6", first), PODS6.length);
  return { ...eni, grants: [{ ...ipv6, block }] };
}

function mergeEni(
  id: string,
  ec2: Ec2Eni | undefined,
  imds: ImdsEni | undefined,
): Eni {
  // Pods would get packets of others: EC2 assigns nothing else, but it, or what answers for it, may err.
  const isForPods = (block: Prefix) =>
    Number(block.size) === sizeOf(kindOf(block)) &&
    (ec2 === undefined || !block.contains(ec2.address)) &&
    (imds?.subnet === undefined || imds.subnet.contains(block));
  const grants = mergeBlocks(ec2?.blocks ?? [], imds?.blocks ?? [])
    .filter(({ block }) => isForPods(block));
  const [ipv6] = mergeBlocks(
    ec2?.ipv6 === undefined ? [] : [ec2.ipv6],
    imds?.ipv6 === undefined ? [] : [imds.ipv6],
  );
  const device = ec2?.attachment?.device ?? imds?.device;
  const inImds = imds !== undefined;
  return {
    id,
    ec2: inImds ? attached(ec2) : ec2,
    device,
    inImds,
    grants,
    ipv6,
  };
}

/** The metadata service shows an ENI when it is attached: EC2's list may be behind. */
function attached(ec2: Ec2Eni | undefined): Ec2Eni | undefined {
  if (ec2?.attachment?.state !== "attaching") return ec2;
  return { ...ec2, attachment: { ...ec2.attachment, state: "attached" } };
}

function mergeBlocks(
  ec2: readonly Prefix[],
  imds: readonly Prefix[],
): Grant[] {
  const granted = new Set(ec2.map(String));
  const shown = new Set(imds.map(String));
  const blocks = new Map([...ec2, ...imds].map((b) => [String(b), b]));
  return [...blocks].map(([text, block]) => ({
    block,
    inEc2: granted.has(text),
    inImds: shown.has(text),
  })).sort((a, b) => a.block.compare(b.block));
}
