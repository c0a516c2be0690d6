import { Address, Prefix } from "../../inet/mod.ts";
import type { HostEni, VpcHostSettings } from "./host_settings.ts";

/** The VPC of these tests: two CIDRs, the node in the first. */
export const VPC_CIDRS: readonly Prefix[] = ["10.0.0.0/16", "100.64.0.0/16"]
  .map(Prefix.parse);

/** The primary ENI, with one block. */
export const PRIMARY: HostEni = {
  id: "eni-0aaa",
  device: 0,
  mac: "02:00:00:00:0a:01",
  addresses: {
    ipv4: Address.parse("10.0.1.10"),
    ipv6: Address.parse("2001:db8:1::10"),
  },
  gateways: {
    ipv4: Address.parse("10.0.1.1"),
    ipv6: Address.parse("fe80::1"),
  },
  blocks: [Prefix.parse("10.0.1.96/28"), Prefix.parse("2001:db8:1:0:a::/80")],
};

/** A second one, with two blocks. */
export const SECONDARY: HostEni = {
  id: "eni-0bbb",
  device: 1,
  mac: "02:00:00:00:0b:01",
  addresses: {
    ipv4: Address.parse("10.0.1.20"),
    ipv6: Address.parse("2001:db8:1::20"),
  },
  gateways: PRIMARY.gateways,
  blocks: [
    Prefix.parse("10.0.1.112/28"),
    Prefix.parse("10.0.1.200/32"),
    Prefix.parse("2001:db8:1:0:b::/80"),
  ],
};

/** A node with both. */
export function settingsOf(
  changes: Partial<VpcHostSettings> = {},
): VpcHostSettings {
  return {
    enis: [PRIMARY, SECONDARY],
    unseenDevices: [],
    families: ["ipv4"],
    mtu: 9001,
    vpcCidrs: VPC_CIDRS,
    excludedCidrs: [],
    externalSnat: false,
    nodePorts: true,
    podImds: true,
    ...changes,
  };
}
