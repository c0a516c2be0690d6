import type { Family } from "../../../lib/inet/mod.ts";

/** Likely cause. */
export type Cause =
  | "route"
  | "rule"
  | "mtu"
  | "policy"
  /** Two pods have the same one. */
  | "address"
  /** Packets have another source on their way. */
  | "translation"
  /** The node's proxy of Services, or the plugin for ports of the host. */
  | "proxy"
  | "egress"
  | "unknown";

/** Likely cause, and its node. */
export interface Diagnosis {
  readonly cause: Cause;
  readonly node: string;
  /** A sentence without a full stop. */
  readonly text: string;
  /** Whose log or objects say more. */
  readonly see: Lead;
}

/** Where to look next. */
export type Lead =
  | "coild"
  | "addresses"
  | "routes"
  | "links"
  | "policies"
  | "forwarding"
  | "proxy"
  | "api-server"
  | "host-port"
  | "egress";

/** The families as people write them. */
export const NAMES: Readonly<Record<Family, string>> = {
  ipv4: "IPv4",
  ipv6: "IPv6",
};
