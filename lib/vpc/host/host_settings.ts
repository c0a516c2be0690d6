import type { Address, DualStack, Family, Prefix } from "../../inet/mod.ts";

/** A network interface of the node as the kernel has to know it. */
export interface HostEni {
  /** Such as `eni-0a1b2c3d4e5f67890`, for messages. */
  readonly id: string;
  /** Its device index; 0 is the primary one, which the node was started with. */
  readonly device: number;
  /** The link is found by it. */
  readonly mac: string;
  /** Its own addresses, which no pod gets. */
  readonly addresses: DualStack<Address>;
  /** The router of its subnet. */
  readonly gateways: DualStack<Address>;
  /** Secondary addresses and delegated prefixes, of both families. */
  readonly blocks: readonly Prefix[];
}

/** Everything that decides about the node's links, rules, routes and packet filter. */
export interface VpcHostSettings {
  readonly enis: readonly HostEni[];
  /** Devices of ENIs of which nothing more is known for the moment: their rules and routes stay. */
  readonly unseenDevices: readonly number[];
  /** The families of pods. */
  readonly families: readonly Family[];
  /** MTU of ENIs in bytes. */
  readonly mtu: number;
  /** The CIDRs of the VPC. */
  readonly vpcCidrs: readonly Prefix[];
  /** Further destinations that see the addresses of pods. */
  readonly excludedCidrs: readonly Prefix[];
  /** Something outside of the node translates addresses: all packets of a pod leave by its ENI, as they are. */
  readonly externalSnat: boolean;
  /** Whether answers of node ports leave by the primary ENI. */
  readonly nodePorts: boolean;
  /** Whether pods reach the metadata service. */
  readonly podImds: boolean;
}
