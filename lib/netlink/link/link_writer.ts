import { NLM_F_CREATE, NLM_F_EXCL, RTM_NEWLINK } from "../message/constants.ts";
import {
  IFF_UP,
  IFLA_ADDRESS,
  IFLA_GROUP,
  IFLA_IFNAME,
  IFLA_INFO_DATA,
  IFLA_INFO_KIND,
  IFLA_LINKINFO,
  IFLA_MTU,
  IFLA_NUM_RX_QUEUES,
  IFLA_NUM_TX_QUEUES,
  type LinkSelector,
  writeLinkHeader,
} from "./link.ts";
import type { MessageWriter } from "../message/message_writer.ts";
import { checkInterfaceName, parseMac } from "../message/names.ts";
import type { Request } from "../message/request.ts";

/** Properties of a new link. An alias is not among them: the kernel ignores it here. */
export interface NewLink {
  /** The name, at most 15 bytes. */
  readonly name: string;
  /** The index, so that requests of the same send can name the link; the kernel's choice unless given. */
  readonly index?: number | undefined;
  /** The largest packet in bytes. */
  readonly mtu?: number;
  /** The Ethernet address; the kernel takes a random one unless given. */
  readonly mac?: string;
  /** The group, to be deleted together with others. */
  readonly group?: number;
  /**
   * How many transmit and receive queues it can have. A veth gets one for each
   * possible CPU by default, of which it uses one until set otherwise by
   * ethtool (veth_init_queues() in drivers/net/veth.c); each costs time to make.
   */
  readonly queues?: number;
}

/** The request that makes a link. */
export function addLink(
  description: string,
  write: (writer: MessageWriter) => void,
): Request {
  const flags = NLM_F_CREATE | NLM_F_EXCL;
  return { type: RTM_NEWLINK, flags, describe: () => description, write };
}

/** Checks what a new link is given, and returns what writes the header and the attributes. */
export function linkWriter(
  link: NewLink,
  state: { readonly flags?: number; readonly change?: number } = {},
): (writer: MessageWriter) => void {
  checkInterfaceName(link.name);
  const mac = link.mac === undefined ? undefined : parseMac(link.mac);
  return (writer) => {
    writeLinkHeader(writer, { index: link.index, ...state });
    writer.attributeString(IFLA_IFNAME, link.name);
    if (link.mtu !== undefined) writer.attributeU32(IFLA_MTU, link.mtu);
    if (mac !== undefined) writer.attributeBytes(IFLA_ADDRESS, mac);
    if (link.group !== undefined) writer.attributeU32(IFLA_GROUP, link.group);
    if (link.queues !== undefined) {
      writer.attributeU32(IFLA_NUM_TX_QUEUES, link.queues);
      writer.attributeU32(IFLA_NUM_RX_QUEUES, link.queues);
    }
  };
}

/** Writes IFLA_LINKINFO. */
export function writeKind(
  writer: MessageWriter,
  kind: string,
  writeData?: () => void,
): void {
  writer.nest(IFLA_LINKINFO, () => {
    writer.attributeString(IFLA_INFO_KIND, kind);
    if (writeData !== undefined) writer.nest(IFLA_INFO_DATA, writeData);
  });
}

/** Checks which link is meant, and returns what writes the header and, for a name, the attribute. */
export function selectorWriter(
  selector: LinkSelector,
  up?: boolean,
): (writer: MessageWriter) => void {
  if ("name" in selector) checkInterfaceName(selector.name);
  const state = up === undefined
    ? {}
    : { flags: up ? IFF_UP : 0, change: IFF_UP };
  return (writer) => {
    if ("index" in selector) {
      writeLinkHeader(writer, { index: selector.index, ...state });
    } else {
      writeLinkHeader(writer, state);
      writer.attributeString(IFLA_IFNAME, selector.name);
    }
  };
}
