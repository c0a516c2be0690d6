import type { Address } from "../../inet/mod.ts";
import { CONNTRACK_STATUS, type ConntrackFlow } from "../../netlink/mod.ts";

/** How many source ports of the gateway are taken towards one destination. */
export interface PortUse {
  /** The IP protocol's number: 6 is TCP, 17 is UDP, 1 and 58 are ICMP. */
  readonly protocol: number;
  /** Where the connections lead. */
  readonly destination: Address;
  /** The port there; 0 for protocols without ports. */
  readonly port: number;
  /** How many connections there are, each with a source port of its own. */
  readonly used: number;
  /** How many source ports there are for them. */
  readonly limit: number;
  /** The client that has the most of them. */
  readonly largest: Address;
}

/** The current connections through a gateway. */
export interface FlowSummary {
  /** Tracked connections of clients, in all states. */
  readonly flows: number;
  /** Those of them over which data may still go both ways. */
  readonly established: number;
  /** The destinations towards which the largest share of the source ports is taken, the worst first. */
  readonly ports: readonly PortUse[];
  /** The clients with the most connections, these first. */
  readonly clients: readonly ClientFlows[];
}

/** How many connections one client has. */
export interface ClientFlows {
  /** The client. */
  readonly address: Address;
  /** Its tracked connections, in all states. */
  readonly flows: number;
}

const PROTOCOL_ICMP = 1;
const PROTOCOL_TCP = 6;
const PROTOCOL_ICMPV6 = 58;
/** UDP, DCCP, SCTP, UDP-Lite: what has ports beside TCP. */
const PROTOCOLS_WITH_PORTS: ReadonlySet<number> = new Set([
  PROTOCOL_TCP,
  17,
  33,
  132,
  136,
]);

/**
 * The kernel gives a connection a source port of the class that the client's
 * own port is in (nf_nat_l4proto_unique_tuple() of net/netfilter/nf_nat_core.c):
 * below 512 one of 1–511, below 1024 one of 600–1023, else one of 1024–65535.
 */
const PORT_CLASSES: readonly {
  readonly below: number;
  readonly limit: number;
}[] = [
  { below: 512, limit: 511 },
  { below: 1024, limit: 424 },
  { below: 65536, limit: 64512 },
];

/** Identifiers of ICMP echo requests, all 16 bits of them. */
const ICMP_LIMIT = 65536;

/** States of TCP in which data may still come, `enum tcp_conntrack`. */
const LIVE_TCP_STATES: ReadonlySet<string | undefined> = new Set([
  "ESTABLISHED",
  "FIN_WAIT",
  "CLOSE_WAIT",
]);

/** Adds up connections one by one, so that a table of 100,000 never has to be held. */
export class FlowCounter {
  readonly #clients: ReadonlyMap<string, { address: Address; flows: number }>;
  readonly #uses = new Map<string, Use>();
  #flows = 0;
  #established = 0;

  /** Counts connections that these addresses began. */
  constructor(clients: Iterable<Address>) {
    this.#clients = new Map(
      Array.from(clients, (address) => [keyOf(address), { address, flows: 0 }]),
    );
  }

  /** Takes one connection into account; one that is not of a client is passed over. */
  add(flow: ConntrackFlow): void {
    if ((flow.status & CONNTRACK_STATUS.srcNat) === 0) return;
    const client = this.#clients.get(keyOf(flow.originalSource));
    if (client === undefined) return;
    client.flows++;
    this.#flows++;
    if (isEstablished(flow)) this.#established++;
    const { port, limit } = portClassOf(flow);
    const { protocol, originalDestination: destination } = flow;
    const key = [protocol, keyOf(destination), port, limit].join();
    const { address } = client;
    let use = this.#uses.get(key);
    if (use === undefined) {
      use = { protocol, destination, port, limit, used: 0, first: address };
      this.#uses.set(key, use);
    }
    if (use.shares === undefined && address !== use.first) {
      use.shares = new Map([[use.first, use.used]]);
    }
    use.used++;
    use.shares?.set(address, (use.shares.get(address) ?? 0) + 1);
  }

  /** The sum, with the `top` worst destinations and the `top` largest clients. */
  summary(top: number): FlowSummary {
    const ports = this.#uses.values().toArray()
      .toSorted((a, b) => b.used / b.limit - a.used / a.limit)
      .slice(0, top).map(
        ({ first, shares = new Map<Address, number>(), ...use }) => {
          const [most] = [...shares].toSorted(([, a], [, b]) => b - a);
          return { ...use, largest: most?.[0] ?? first };
        },
      );
    const clients = this.#clients.values().filter(({ flows }) => flows > 0)
      .toArray().toSorted((a, b) => b.flows - a.flows).slice(0, top);
    const [flows, established] = [this.#flows, this.#established];
    return { flows, established, ports, clients };
  }
}

interface Use extends Omit<PortUse, "largest"> {
  used: number;
  readonly first: Address;
  /** How many of them each client has; absent while the first has all, as with most destinations. */
  shares?: Map<Address, number>;
}

/** A family and a number: a bigint is quicker to make a key of than the text is. */
function keyOf(address: Address): string {
  return `${address.family} ${address.value}`;
}

function isEstablished({ protocol, status, tcpState }: ConntrackFlow): boolean {
  if (protocol === PROTOCOL_TCP) {
    return (status & CONNTRACK_STATUS.seenReply) !== 0 &&
      LIVE_TCP_STATES.has(tcpState);
  }
  // An echo is over with its reply; of others the kernel says when both sides go on talking.
  return protocol !== PROTOCOL_ICMP && protocol !== PROTOCOL_ICMPV6 &&
    (status & CONNTRACK_STATUS.assured) !== 0;
}

/** Towards which port there, and of how many source ports here. */
function portClassOf(
  flow: ConntrackFlow,
): { readonly port: number; readonly limit: number } {
  const { protocol, originalDestinationPort: port, replyDestinationPort } =
    flow;
  if (protocol === PROTOCOL_ICMP || protocol === PROTOCOL_ICMPV6) {
    return { port: 0, limit: ICMP_LIMIT };
  }
  // Without ports, two clients with one destination cannot be distinguished.
  if (!PROTOCOLS_WITH_PORTS.has(protocol)) return { port: 0, limit: 1 };
  const found = PORT_CLASSES.find(({ below }) => replyDestinationPort < below);
  return { port, limit: found?.limit ?? 0 };
}
