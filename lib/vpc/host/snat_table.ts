import { Address, distinct, type Prefix } from "../../inet/mod.ts";
import {
  ANY_SOURCE_LINK_GROUP,
  POD_LINK_GROUP,
  POD_LINK_GROUP_MASK,
  VPC_NFT_TABLE,
  VPC_NODE_PORT_MARK,
} from "../../names/mod.ts";
import { nft, type NftChain, type NftTable } from "../../netlink/mod.ts";
import type { HostEni, VpcHostSettings } from "./host_settings.ts";

/** NF_IP_PRI_MANGLE, NF_IP_PRI_FILTER and NF_IP_PRI_NAT_SRC of `<linux/netfilter_ipv4.h>`. */
const MANGLE = -150;
const FILTER = 0;
const SRCNAT = 100;

/** Where EC2 serves instance metadata, in either family. */
const METADATA: readonly Address[] = [
  Address.parse("169.254.169.254"),
  Address.parse("fd00:ec2::254"),
];

/** The bits in which the link groups of all pods agree. */
const ANY_POD_MASK = POD_LINK_GROUP_MASK &
  ~(POD_LINK_GROUP ^ ANY_SOURCE_LINK_GROUP);

/** Destinations that pods reach with their own address by their own ENI; "all" where nothing is translated. Pure. */
export function untranslated(
  { externalSnat, vpcCidrs, excludedCidrs }: Pick<
    VpcHostSettings,
    "externalSnat" | "vpcCidrs" | "excludedCidrs"
  >,
): readonly Prefix[] | "all" {
  const cidrs = distinct([...vpcCidrs, ...excludedCidrs])
    .filter(({ family }) => family === "ipv4");
  const isAll = externalSnat || cidrs.some(({ length }) => length === 0);
  return isAll ? "all" : cidrs;
}

/** The primary ENI, and the index of its link: a name may change while packets flow. */
interface PrimaryEni {
  readonly eni: HostEni;
  readonly index: number;
}

/**
 * The node's nf_tables table: translation to the primary address, marks for
 * answers of node ports, pods' access to instance metadata. It names no block,
 * so it changes only with the VPC's CIDRs and the primary ENI. Pure.
 */
export function snatTable(
  settings: VpcHostSettings,
  primary: PrimaryEni,
): NftTable {
  return {
    family: "inet",
    name: VPC_NFT_TABLE,
    counters: [],
    sets: [],
    chains: [
      ...settings.nodePorts ? [nodePortMarks(settings, primary)] : [],
      ...settings.podImds ? [] : [metadataGuard()],
      ...sourceNat(settings, primary),
    ],
  };
}

/**
 * A connection to the primary address is marked, and so are its answers: these
 * leave by the primary ENI from any pod. Before destinations are
 * translated, and one bit only: the others belong to the Service proxy.
 */
function nodePortMarks(
  { families }: VpcHostSettings,
  { eni, index }: PrimaryEni,
): NftChain {
  return {
    name: "node-ports",
    type: "filter",
    hook: "prerouting",
    priority: MANGLE,
    policy: "accept",
    rules: [
      ...families.flatMap((family) => eni.addresses[family] ?? []).map((
        address,
      ) =>
        nft.rule([
          nft.iif(index),
          nft.daddr(address),
          nft.ctDirection("original"),
          nft.setCtMarkBits(VPC_NODE_PORT_MARK),
        ])
      ),
      nft.rule([
        nft.ctDirection("reply"),
        nft.ctMarkBits(VPC_NODE_PORT_MARK),
        nft.setMetaMarkBits(VPC_NODE_PORT_MARK),
      ]),
    ],
  };
}

function metadataGuard(): NftChain {
  const pods = nft.iifgroup(POD_LINK_GROUP & ANY_POD_MASK, {
    mask: ANY_POD_MASK,
  });
  return {
    name: "metadata",
    type: "filter",
    hook: "forward",
    priority: FILTER,
    policy: "accept",
    rules: METADATA.map((address) =>
      nft.rule([pods, nft.daddr(address), nft.drop()])
    ),
  };
}

/**
 * EC2 drops what leaves the primary ENI with any source that is not of that
 * ENI, and its Internet gateway knows no addresses of pods: everything that goes
 * beyond the untranslated destinations gets the primary address.
 */
function sourceNat(
  settings: VpcHostSettings,
  { eni, index }: PrimaryEni,
): NftChain[] {
  const destinations = untranslated(settings);
  const { ipv4 } = eni.addresses;
  const isServed = ipv4 !== undefined && settings.families.includes("ipv4");
  if (destinations === "all" || !isServed) return [];
  return [{
    name: "source-nat",
    type: "nat",
    hook: "postrouting",
    priority: SRCNAT,
    policy: "accept",
    rules: [
      ...destinations.map((cidr) =>
        nft.rule([nft.daddrIn(cidr), nft.accept()])
      ),
      nft.rule([
        nft.oif(index),
        nft.saddr(ipv4, { not: true }),
        nft.masquerade(),
      ]),
    ],
  }];
}
