import type { Netns } from "../../linux/mod.ts";
import { RTM_DELLINK, RTM_GETLINK, RTM_SETLINK } from "../message/constants.ts";
import { AF_INET, AF_INET6 } from "../message/family.ts";
import {
  ADDR_GEN_MODES,
  IFLA_ADDRESS,
  IFLA_AF_SPEC,
  IFLA_GROUP,
  IFLA_IFALIAS,
  IFLA_IFNAME,
  IFLA_INET6_ADDR_GEN_MODE,
  IFLA_INET_CONF,
  IFLA_MASTER,
  IFLA_MTU,
  IFLA_NET_NS_FD,
  IFLA_TXQLEN,
  IPV4_DEVCONF_ARPFILTER,
  IPV4_DEVCONF_RP_FILTER,
  type Ipv4Conf,
  type Ipv6AddrGenMode,
  type Link,
  type LinkSelector,
  linkText,
  parseLink,
  writeLinkFilter,
  writeLinkHeader,
} from "./link.ts";
import {
  addLink,
  linkWriter,
  type NewLink,
  selectorWriter,
  writeKind,
} from "./link_writer.ts";
import type { MessageWriter } from "../message/message_writer.ts";
import { checkInterfaceName, parseMac } from "../message/names.ts";
import type { Request } from "../message/request.ts";

/** VETH_INFO_PEER of `<linux/veth.h>`. */
const VETH_INFO_PEER = 1;

/** A new veth: the end here and the one there. An index of that one needs an index of this one. */
export interface NewVeth extends NewLink {
  /** The other end; with `netns`, made inside that namespace. The namespace must stay open until this is sent. */
  readonly peer: NewLink & { readonly netns?: Netns | undefined };
}

/**
 * Makes a veth pair, each end with its final name, in its final namespace. Both
 * are down: a veth cannot be made up (ENOTCONN, its other end being missing).
 *
 * @throws {SyntaxError} when a name or MAC address is not one
 */
export function linkAddVeth(veth: NewVeth): Request {
  const { peer } = veth;
  const writeEnd = linkWriter(veth);
  const writePeer = linkWriter(peer);
  return addLink(
    `create veth "${veth.name}" with peer "${peer.name}"`,
    (writer) => {
      writeEnd(writer);
      writeKind(writer, "veth", () => {
        writer.nest(VETH_INFO_PEER, () => {
          writePeer(writer);
          if (peer.netns !== undefined) {
            writer.attributeU32(IFLA_NET_NS_FD, peer.netns.fd);
          }
        });
      });
    },
  );
}

/** Changes that `linkSet()` can make. */
export interface LinkChange {
  /** Sets it up or down. */
  readonly up?: boolean | undefined;
  /** `""` takes the alias away. At most 255 bytes. */
  readonly alias?: string | undefined;
  /** The group, to be deleted together with others. */
  readonly group?: number;
  /** The largest packet in bytes. */
  readonly mtu?: number;
  /** How many packets wait to be sent at most. */
  readonly txQueueLength?: number | undefined;
  /** The Ethernet address; the kernel takes a random one unless given. */
  readonly mac?: string | undefined;
  /** The new name. Needs the link selected by index: with a name, netlink takes the attribute for the selector. */
  readonly rename?: string;
  /** The index of the bridge to become a port of; 0 leaves it. */
  readonly master?: number;
  /**
   * How the link-local IPv6 address is made. Not together with `up: true`: the
   * kernel sets the link up first (do_setlink() in net/core/rtnetlink.c), and
   * then may have made an address already. Use two requests in one batch.
   */
  readonly ipv6AddrGenMode?: Ipv6AddrGenMode | undefined;
  /** IPv4 settings; those left out stay as they are. Not together with `ipv6AddrGenMode`. */
  readonly ipv4Conf?: Partial<Ipv4Conf> | undefined;
  /** Moves the link to another namespace, which must stay open until this is sent. */
  readonly netns?: Netns | undefined;
}

/**
 * Changes a link.
 *
 * @throws {SyntaxError} when a name or MAC address is not one
 * @throws {TypeError} when asked to rename a link selected by name, or to set
 * it up and its `ipv6AddrGenMode` in one
 */
export function linkSet(selector: LinkSelector, change: LinkChange): Request {
  if (change.rename !== undefined && !("index" in selector)) {
    throw new TypeError(
      `Cannot rename link ${linkText(selector)}: it must be selected by index`,
    );
  }
  if (change.up === true && change.ipv6AddrGenMode !== undefined) {
    throw new TypeError(
      `Cannot set link ${
        linkText(selector)
      } up together with its ipv6AddrGenMode: that must come first`,
    );
  }
  if (change.ipv4Conf !== undefined && change.ipv6AddrGenMode !== undefined) {
    throw new TypeError(
      `Cannot change link ${
        linkText(selector)
      }: give ipv4Conf and ipv6AddrGenMode in two requests`,
    );
  }
  if (change.rename !== undefined) checkInterfaceName(change.rename);
  const mac = change.mac === undefined ? undefined : parseMac(change.mac);
  const select = selectorWriter(selector, change.up);
  return {
    type: RTM_SETLINK,
    flags: 0,
    describe: () => `set link ${linkText(selector)}`,
    write(writer) {
      select(writer);
      writeChange(writer, change, mac);
    },
  };
}

/** Deletes one link, or all links of a group. */
export type LinkDeletion = LinkSelector | { readonly group: number };

/**
 * Deletes a link, with its other end when it is a veth; or all links of a
 * group, which costs the kernel one grace period for all rather than one each.
 *
 * @throws {RangeError} for group 0, which every link belongs to at first
 */
export function linkDelete(target: LinkDeletion): Request {
  if (!("group" in target)) {
    return {
      type: RTM_DELLINK,
      flags: 0,
      describe: () => `delete link ${linkText(target)}`,
      write: selectorWriter(target),
    };
  }
  const { group } = target;
  if (!Number.isInteger(group) || group <= 0 || group > 0xffffffff) {
    throw new RangeError(`Cannot delete link group ${group}`);
  }
  return {
    type: RTM_DELLINK,
    flags: 0,
    describe: () => `delete link group ${group}`,
    write(writer) {
      writeLinkHeader(writer);
      writer.attributeU32(IFLA_GROUP, group);
    },
  };
}

/** Asks for one link; `onLink` gets it, without which nothing reads the answer. Refused with ENODEV when there is none. */
export function linkGet(
  selector: LinkSelector,
  onLink?: (link: Link) => void,
): Request {
  const select = selectorWriter(selector);
  return {
    type: RTM_GETLINK,
    flags: 0,
    describe: () => `get link ${linkText(selector)}`,
    write(writer) {
      select(writer);
      writeLinkFilter(writer);
    },
    onReply: (message) => onLink?.(parseLink(message)),
  };
}

function writeChange(
  writer: MessageWriter,
  change: LinkChange,
  mac: Uint8Array | undefined,
): void {
  const { alias, group, mtu, rename, master, ipv6AddrGenMode, netns } = change;
  if (rename !== undefined) writer.attributeString(IFLA_IFNAME, rename);
  if (alias !== undefined) {
    // The kernel counts a NUL as part of the alias, but takes no empty attribute.
    writer.attributeString(IFLA_IFALIAS, alias, { nul: alias === "" });
  }
  if (group !== undefined) writer.attributeU32(IFLA_GROUP, group);
  if (mtu !== undefined) writer.attributeU32(IFLA_MTU, mtu);
  if (change.txQueueLength !== undefined) {
    writer.attributeU32(IFLA_TXQLEN, change.txQueueLength);
  }
  if (mac !== undefined) writer.attributeBytes(IFLA_ADDRESS, mac);
  if (master !== undefined) writer.attributeU32(IFLA_MASTER, master);
  if (ipv6AddrGenMode !== undefined) {
    const mode = ADDR_GEN_MODES.indexOf(ipv6AddrGenMode);
    writer.nest(IFLA_AF_SPEC, () => {
      writer.nest(AF_INET6, () => {
        writer.attributeU8(IFLA_INET6_ADDR_GEN_MODE, mode);
      });
    });
  }
  if (change.ipv4Conf !== undefined) writeIpv4Conf(writer, change.ipv4Conf);
  if (netns !== undefined) writer.attributeU32(IFLA_NET_NS_FD, netns.fd);
}

function writeIpv4Conf(writer: MessageWriter, conf: Partial<Ipv4Conf>): void {
  const { rpFilter, arpFilter } = conf;
  writer.nest(IFLA_AF_SPEC, () => {
    writer.nest(AF_INET, () => {
      writer.nest(IFLA_INET_CONF, () => {
        if (rpFilter !== undefined) {
          writer.attributeU32(IPV4_DEVCONF_RP_FILTER, rpFilter);
        }
        if (arpFilter !== undefined) {
          writer.attributeU32(IPV4_DEVCONF_ARPFILTER, arpFilter ? 1 : 0);
        }
      });
    });
  });
}
