import type { Address, Family } from "../../inet/mod.ts";
import type { FouPort, Rule, TunnelSpec } from "../../netlink/mod.ts";

/** A kernel setting that forwarding through the tunnel needs. */
export interface ServerSysctl {
  /** As `writeSysctl()` takes it. */
  readonly name: string;
  /** What it is set to. */
  readonly value: string;
  /** Other values that do as well, where it cannot be written. */
  readonly alsoGood: readonly string[];
}

/** The one tunnel device of a family. */
export interface ServerLink {
  readonly name: string;
  /** Its MTU in bytes: what fits into one datagram of the interface's MTU. Absent: to be computed from that. */
  readonly mtu?: number;
  /** Without a remote: each packet goes to the address that it is for. */
  readonly tunnel: TunnelSpec;
}

/** What a gateway needs for one family. */
export interface ServerFamily {
  /** The family, inside and outside the tunnel. */
  readonly family: Family;
  /** The gateway's own address. */
  readonly address: Address;
  /** Where datagrams are unpacked. */
  readonly fouPort: FouPort;
  /** The tunnel device. */
  readonly link: ServerLink;
  /** Sends what comes from outside through the table of clients. */
  readonly rule: Rule;
  /** Settings of the kernel. */
  readonly sysctls: readonly ServerSysctl[];
  /** The name of the nft set of clients. */
  readonly clientSet: string;
}
