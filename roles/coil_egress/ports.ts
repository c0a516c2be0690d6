import type { Address, DualStack } from "../../lib/inet/mod.ts";

/** Packets and bytes that a rule has seen. */
export interface PacketCount {
  readonly packets: bigint;
  readonly bytes: bigint;
}

/** What the rules of the gateway have counted, by family; a family that is not served is absent. */
export interface GatewayCounters {
  /** Packets that left with the gateway's address. */
  readonly masqueraded: DualStack<PacketCount>;
  /** Packets of connections that somebody outside tried to open, dropped. */
  readonly unsolicited: DualStack<PacketCount>;
  /** Packets that belong to no connection, dropped instead of leaving with the client's address. */
  readonly invalid: DualStack<PacketCount>;
  /** Datagrams for the tunnel from others than clients, dropped. */
  readonly foreignFou: DualStack<PacketCount>;
}

/** How many source ports of the gateway are taken towards one destination. */
export interface PortUse {
  /** Name of the IP protocol, or its number. */
  readonly protocol: string;
  readonly destination: Address;
  readonly port: number;
  readonly used: number;
  /** How many source ports there are for them. */
  readonly limit: number;
}

/** What goes through the gateway at the moment. */
export interface FlowSummary {
  /** Established flows of clients. */
  readonly established: number;
  /** The destinations with the largest share of ports taken, the worst first. */
  readonly ports: readonly PortUse[];
}

/** How full the kernel's table of connections is. */
export interface ConntrackFill {
  readonly count: number;
  readonly limit: number;
}

/** The kernel's half of a gateway, whose clients this daemon decides on. */
export interface DataPlane extends Disposable {
  /** Makes these the clients, whatever was before. */
  setClients(addresses: readonly Address[]): Promise<void>;
  /** Adds and removes clients in one transaction. */
  changeClients(
    change: {
      readonly add: readonly Address[];
      readonly remove: readonly Address[];
    },
  ): Promise<void>;
  /** Reads what the rules have counted. */
  readCounters(): Promise<GatewayCounters>;
  /** Goes through the table of connections. */
  readFlows(): Promise<FlowSummary>;
  /** Reads how full the table of connections is. */
  readConntrack(): Promise<ConntrackFill>;
}
