import { Address, type DualStack, type Family } from "../../inet/mod.ts";
import { LinuxError, type Netns } from "../../linux/mod.ts";
import {
  NODE_NFT_TABLE,
  POD_LINK_GROUP,
  POD_LINK_GROUP_MASK,
} from "../../names/mod.ts";
import {
  NetfilterSocket,
  NetlinkError,
  nft,
  type NftTable,
  TableMonitor,
} from "../../netlink/mod.ts";
import { messageOf } from "../../errors/mod.ts";

/** The counters of packets with forged sources. */
const FORGED: Readonly<Record<Family, string>> = {
  ipv4: "forged_ipv4",
  ipv6: "forged_ipv6",
};

/** NF_IP_PRI_RAW of `<linux/netfilter_ipv4.h>`: before connection tracking, which a flood would fill. */
const PRIORITY_RAW = -300;

/** Where reports of multicast listeners go (RFC 9777, section 5.2.14): a new pod sends one before its link-local address has its route. */
const MLD_ROUTERS: Address = Address.parse("ff02::16");

/**
 * Neither links of pods nor those that are being deleted. Packets come in by the
 * latter until they are gone, and a pod that is cut off has no route: none passes.
 */
const OTHER_LINKS = nft.iifgroup(POD_LINK_GROUP, {
  not: true,
  mask: POD_LINK_GROUP_MASK,
});

/**
 * Drops what pods send with a source that the node does not route to them.
 *
 * The unspecified address goes first: the kernel's own lookup lets it through
 * where duplicate address detection has it. Dropping that is harmless: the
 * only other address on a pod's link is the node's. Router solicitations are not
 * needed: the node sends no router advertisements, and a pod routes for no one else.
 */
export const SOURCE_TABLE: NftTable = {
  family: "inet",
  name: NODE_NFT_TABLE,
  counters: Object.values(FORGED),
  sets: [],
  chains: [{
    name: "pod-sources",
    type: "filter",
    hook: "prerouting",
    priority: PRIORITY_RAW,
    policy: "accept",
    rules: [
      nft.rule([OTHER_LINKS, nft.accept()]),
      nft.rule([nft.saddr(Address.parse("0.0.0.0")), nft.drop()]),
      nft.rule([nft.saddr(Address.parse("::")), nft.drop()]),
      nft.rule([nft.icmpv6Type("nd-router-solicit"), nft.drop()]),
      nft.rule([nft.icmpv6Type("nd-router-advert"), nft.drop()]),
      nft.rule([nft.icmpv6Type("nd-redirect"), nft.drop()]),
      nft.rule([nft.reversePath("exists"), nft.accept()]),
      nft.rule([nft.daddr(MLD_ROUTERS), nft.drop()]),
      nft.rule([nft.nfproto("ipv4"), nft.counter(FORGED.ipv4), nft.drop()]),
      nft.rule([nft.nfproto("ipv6"), nft.counter(FORGED.ipv6), nft.drop()]),
    ],
  }],
};

/** The kernel cannot have the table: nothing checks the sources of pods' packets but `rp_filter`. */
export class SourceTableError extends Error {
  /** The class, for logs. */
  override readonly name: string = "SourceTableError";

  /** `cause` is what the kernel said. */
  constructor(cause: unknown) {
    super(
      `Cannot check the sources of pods' packets: ${
        messageOf(cause)
      }; pods of this node can forge IPv6 sources, and IPv4 sources where net.ipv4.conf.all.rp_filter is 2; ` +
        "the node's kernel needs nf_tables with module nft_fib_inet (CONFIG_NFT_FIB_INET)",
      { cause },
    );
  }
}

/** How {@linkcode SourceTable} is opened. */
export interface SourceTableOptions {
  /** The host's network namespace, which stays the caller's. Default: the process's own. */
  readonly hostNetns?: Netns | undefined;
}

/** The node's nftables table that drops packets with forged sources. */
export class SourceTable implements AsyncDisposable {
  readonly #hostNetns: Netns | undefined;
  #socket: NetfilterSocket | undefined;

  /** Changes nothing yet. */
  constructor({ hostNetns }: SourceTableOptions = {}) {
    this.#hostNetns = hostNetns;
  }

  /**
   * Makes the kernel's table what it should be, from any state. Idempotent,
   * and cheap where nothing is to be done. Returns whether something was.
   *
   * @throws {SourceTableError} when the kernel cannot have it
   */
  async ensure(): Promise<boolean> {
    try {
      return await this.#open().replaceTable(SOURCE_TABLE);
    } catch (error) {
      throw explained(error);
    }
  }

  /**
   * What `ensure()` would change, one phrase each. Changes nothing.
   *
   * @throws {SourceTableError} when the kernel has no nftables
   */
  async inspect(): Promise<readonly string[]> {
    try {
      return await this.#open().compareTable(SOURCE_TABLE);
    } catch (error) {
      throw explained(error);
    }
  }

  /**
   * Listens to what others do to the table.
   *
   * @throws {LinuxError} when the kernel refuses
   */
  watch(): TableMonitor {
    const netns = this.#hostNetns;
    return TableMonitor.open({
      table: NODE_NFT_TABLE,
      ignoredPortIds: [this.#open().portId],
      netns,
    });
  }

  /** How many packets with forged sources were dropped since the table was made; 0 without a table. */
  async countForged(): Promise<Required<DualStack<number>>> {
    const counters = await this.#open().readCounters(NODE_NFT_TABLE);
    const packets = (family: Family) =>
      Number(counters.get(FORGED[family])?.packets ?? 0n);
    return { ipv4: packets("ipv4"), ipv6: packets("ipv6") };
  }

  /** Closes the socket; the table stays. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#socket?.[Symbol.asyncDispose]();
  }

  /** Opened at first use: without netfilter in the kernel it starts all the same. */
  #open(): NetfilterSocket {
    const netns = this.#hostNetns;
    return this.#socket ??= NetfilterSocket.open({ netns });
  }
}

function explained(error: unknown): unknown {
  const isKernels = error instanceof NetlinkError ||
    error instanceof LinuxError;
  return isKernels ? new SourceTableError(error) : error;
}
