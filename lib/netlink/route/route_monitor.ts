import { NETLINK_ROUTE, type Netns, openNetlink } from "../../linux/mod.ts";
import {
  NLMSG_HEADER_SIZE,
  RTM_DELADDR,
  RTM_DELLINK,
  RTM_DELROUTE,
  RTM_DELRULE,
  RTM_NEWADDR,
  RTM_NEWLINK,
  RTM_NEWNETCONF,
  RTM_NEWROUTE,
  RTM_NEWRULE,
} from "../message/constants.ts";
import { RTA_TABLE, RTMSG_SIZE } from "./route.ts";
import { familyOf } from "../message/family.ts";
import { GroupReader, type Overflow } from "../connection/group_reader.ts";
import { IFF_UP } from "../link/link.ts";
import type { Message } from "../message/message_reader.ts";
import {
  type MessagePattern,
  notificationFilter,
} from "../connection/notification_filter.ts";
import type { Family } from "../../inet/mod.ts";

/** Multicast groups of `<linux/rtnetlink.h>`. */
const RTNLGRP_LINK = 1;
const RTNLGRP_IPV4_IFADDR = 5;
const RTNLGRP_IPV4_ROUTE = 7;
const RTNLGRP_IPV4_RULE = 8;
const RTNLGRP_IPV6_IFADDR = 9;
const RTNLGRP_IPV6_ROUTE = 11;
const RTNLGRP_IPV6_RULE = 19;
const RTNLGRP_IPV4_NETCONF = 24;
const RTNLGRP_IPV6_NETCONF = 25;
/** By which part of the network they are about. */
const GROUPS = {
  links: [RTNLGRP_LINK],
  addresses: [RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR],
  routes: [RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE],
  rules: [RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE],
  forwarding: [RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF],
} as const;

/** Where fields are, from the start of the message: `struct ifinfomsg`, `rtmsg`, `netconfmsg`. */
const LINK_FLAGS = NLMSG_HEADER_SIZE + 8;
const LINK_CHANGE = NLMSG_HEADER_SIZE + 12;
const ROUTE_TABLE = NLMSG_HEADER_SIZE + 4;
const ROUTE_PROTOCOL = NLMSG_HEADER_SIZE + 5;
/** The kernel writes the index first: inet_netconf_fill_devconf() of net/ipv4/devinet.c. */
const NETCONF_INDEX = NLMSG_HEADER_SIZE + 8;
/** NETCONFA_IFINDEX_ALL of `<linux/netconf.h>` is -1; no link has a number like that. */
const ALL_LINKS_BYTE = 0xff;
/** RT_TABLE_COMPAT: the table's number has no room in the header. */
const TABLE_COMPAT = 252;

/** Events that a monitor reports. The kernel drops all others. */
export interface MonitorInterests {
  /** Rules that come or go. */
  readonly rules?: boolean;
  /** Routes that come, change or go in these tables. */
  readonly routes?: readonly {
    readonly table: number;
    readonly protocol?: number;
  }[];
  /** Links that are set down, set up, or deleted. */
  readonly links?: readonly ("down" | "up" | "gone")[];
  /** Addresses that go; `both`: also those that come. */
  readonly addresses?: "gone" | "both";
  /** Forwarding of all links, switched on or off. */
  readonly forwarding?: boolean;
}

/** Something that another program changed. */
export type Notification =
  | { readonly kind: "rule"; readonly family: Family | undefined }
  | { readonly kind: "route"; readonly table: number }
  | { readonly kind: "link"; readonly index: number }
  | { readonly kind: "address"; readonly index: number }
  | { readonly kind: "forwarding" }
  | Overflow;

/** Options of `RouteMonitor.open()`. */
export interface RouteMonitorOptions {
  /** The namespace to watch; without it, the process's own. */
  readonly netns?: Netns | undefined;
  /** What to report. */
  readonly interests: MonitorInterests;
  /** Port ids of sockets whose changes are not reported: one's own. */
  readonly ignoredPortIds?: readonly number[];
  /** Room for what was not read yet. Default 4 MiB. */
  readonly receiveBufferBytes?: number;
}

/**
 * Reports what other programs change in the network of one namespace, as `ip monitor`
 * does. A filter in the kernel drops what is of no interest, so that it costs
 * this process nothing. While it waits it occupies one thread.
 */
export class RouteMonitor extends GroupReader<Notification> {
  /**
   * Subscribes; `next()` returns changes made from now on.
   *
   * @throws {LinuxError} when the kernel refuses
   */
  static open(options: RouteMonitorOptions): RouteMonitor {
    const { interests, ignoredPortIds = [] } = options;
    const socket = openNetlink(NETLINK_ROUTE, {
      netns: options.netns,
      receiveBufferBytes: options.receiveBufferBytes,
      groups: groupsOf(interests),
      filter: notificationFilter(patternsOf(interests), ignoredPortIds),
    });
    return new RouteMonitor(socket, notificationOf);
  }
}

function groupsOf(interests: MonitorInterests): number[] {
  return [
    ...(interests.rules ? GROUPS.rules : []),
    ...(interests.routes ? GROUPS.routes : []),
    ...(interests.links ? GROUPS.links : []),
    ...(interests.addresses ? GROUPS.addresses : []),
    ...(interests.forwarding ? GROUPS.forwarding : []),
  ];
}

/** Which messages of those groups are of interest. Pure. */
function patternsOf(interests: MonitorInterests): MessagePattern[] {
  const { rules, routes = [], links = [], addresses, forwarding } = interests;
  return [
    ...(rules ? [{ type: RTM_NEWRULE }, { type: RTM_DELRULE }] : []),
    ...routes.flatMap(routePatterns),
    ...linkPatterns(links),
    ...(addresses ? [{ type: RTM_DELADDR }] : []),
    ...(addresses === "both" ? [{ type: RTM_NEWADDR }] : []),
    ...(forwarding
      ? [{
        type: RTM_NEWNETCONF,
        bytes: [
          { offset: NETCONF_INDEX, value: ALL_LINKS_BYTE },
          { offset: NETCONF_INDEX + 3, value: ALL_LINKS_BYTE },
        ],
      }]
      : []),
  ];
}

function routePatterns(
  { table, protocol }: { readonly table: number; readonly protocol?: number },
): MessagePattern[] {
  const bytes = [
    {
      offset: ROUTE_TABLE,
      value: table > 0xff ? TABLE_COMPAT : table,
    },
    ...(protocol === undefined
      ? []
      : [{ offset: ROUTE_PROTOCOL, value: protocol }]),
  ];
  return [{ type: RTM_NEWROUTE, bytes }, { type: RTM_DELROUTE, bytes }];
}

/** A new link announces itself with all bits changed: no program has set it up or down. */
function linkPatterns(
  kinds: readonly ("down" | "up" | "gone")[],
): MessagePattern[] {
  return kinds.map((kind) =>
    kind === "gone" ? { type: RTM_DELLINK } : {
      type: RTM_NEWLINK,
      bytes: [
        { offset: LINK_CHANGE, mask: IFF_UP, value: IFF_UP },
        { offset: LINK_CHANGE + 3, value: 0 },
        {
          offset: LINK_FLAGS,
          mask: IFF_UP,
          value: kind === "up" ? IFF_UP : 0,
        },
      ],
    }
  );
}

function notificationOf(message: Message): Notification | undefined {
  const { payload, type } = message;
  switch (type) {
    case RTM_NEWRULE:
    case RTM_DELRULE:
      return { kind: "rule", family: familyOf(payload.u8(0)) };
    case RTM_NEWROUTE:
    case RTM_DELROUTE: {
      const table = payload.attributes(RTMSG_SIZE).u32(RTA_TABLE);
      return { kind: "route", table: table ?? payload.u8(4) };
    }
    case RTM_NEWLINK:
    case RTM_DELLINK:
      return { kind: "link", index: payload.i32(4) };
    case RTM_NEWADDR:
    case RTM_DELADDR:
      return { kind: "address", index: payload.u32(4) };
    case RTM_NEWNETCONF:
      return { kind: "forwarding" };
    default:
      return undefined;
  }
}
