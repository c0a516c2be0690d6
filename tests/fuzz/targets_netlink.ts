/** What the kernel sends: netlink, nf_tables, connections, FoU ports. */
import { parseAddress } from "../../lib/netlink/route/address.ts";
import { DumpReader } from "../../lib/netlink/connection/dump_reader.ts";
import {
  parseAcknowledgement,
  parseDone,
} from "../../lib/netlink/message/errors.ts";
import { parsePort } from "../../lib/netlink/fou/fou_socket.ts";
import { parseLink } from "../../lib/netlink/link/link.ts";
import { parseLinkCounters } from "../lab/netlink_requests.ts";
import {
  Attributes,
  type Message,
  parseMessages,
  Payload,
} from "../../lib/netlink/message/message_reader.ts";
import { parseNeighbour } from "../../lib/netlink/route/neighbour.ts";
import { parseElements } from "../../lib/netlink/netfilter/wire/requests.ts";
import { decodeElement } from "../../lib/netlink/netfilter/wire/set_key.ts";
import { parseCounter } from "../../lib/netlink/netfilter/table/state.ts";
import { parseRoute } from "../../lib/netlink/route/route.ts";
import { parseRule } from "../../lib/netlink/route/rule.ts";
import type { Target } from "./fuzzer.ts";
import { parseFlow } from "../../lib/netlink/conntrack/flow_view.ts";

/** What reads one message. */
type Parser = (message: Message) => unknown;

/** Kinds by the number that their messages have: rtnetlink(7). */
const PARSERS: Readonly<Record<number, Parser>> = {
  2: parseAcknowledgement,
  3: parseDone,
  16: parseLink,
  20: parseAddress,
  24: parseRoute,
  28: parseNeighbour,
  32: parseRule,
  92: parseLinkCounters,
};

/** Every member of what was read, for some are computed when they are asked for. */
function readAll(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  let from: object | null = value;
  while (from !== null && from !== Object.prototype) {
    for (const key of Object.getOwnPropertyNames(from)) {
      const { get } = Object.getOwnPropertyDescriptor(from, key) ?? {};
      get?.call(value);
    }
    from = Object.getPrototypeOf(from) as object | null;
  }
}

function* attributesOf(bytes: Uint8Array): Generator<Attributes> {
  const attributes = new Attributes(bytes);
  yield attributes;
  for (const type of attributes.types()) {
    const nested = attributes.nested(type);
    if (nested !== undefined) yield nested;
  }
}

/** Datagrams of the kernel, and what is in them. */
export const NETLINK_TARGETS: readonly Target[] = [
  {
    name: "netlink",
    kind: "bytes",
    run({ bytes }) {
      for (const message of parseMessages(bytes)) {
        readAll(PARSERS[message.type]?.(message));
      }
    },
  },
  {
    name: "dump",
    kind: "bytes",
    // It never throws: what is malformed is told at the end.
    mayThrow: () => false,
    run({ bytes }) {
      new DumpReader({ sequence: 0, portId: 0 }, parseLink).take(bytes);
    },
  },
  {
    name: "conntrack",
    kind: "bytes",
    run({ bytes }) {
      const payload = new Payload(bytes);
      const flow = parseFlow(
        { type: 0x100, flags: 0, sequence: 0, portId: 0, payload },
      );
      readAll(flow);
    },
  },
  {
    name: "fou",
    kind: "bytes",
    run({ bytes }) {
      const payload = new Payload(bytes);
      parsePort({ type: 0x20, flags: 0, sequence: 0, portId: 0, payload });
    },
  },
  {
    name: "netfilter",
    kind: "bytes",
    run({ bytes }) {
      for (const attributes of attributesOf(bytes)) {
        parseCounter(attributes);
        for (const element of parseElements(attributes)) {
          if (typeof element === "string") continue;
          decodeElement(element, ["ipv4_addr", "mark"]);
        }
      }
    },
  },
];
