import { timeText } from "../../../lib/api/mod.ts";
import type { Prefix } from "../../../lib/inet/mod.ts";
import { VPC_ENI_TABLES } from "../../../lib/names/mod.ts";
import { MAIN_TABLE } from "../../../lib/netlink/mod.ts";
import type { Eni, Grant } from "../../../lib/vpc/mod.ts";
import {
  type InspectedAddress,
  inspectedAddresses,
  type InspectionFacts,
} from "./inspection.ts";

/** Go's zero time. */
const NEVER = "0001-01-01T00:00:00Z";

/** coild uses the first network card alone. */
const CARD = "0";

/** What `/v1/enis` answers: ENIs with their addresses, as amazon-vpc-cni-k8s names it. IDs of containers are left out, as there. */
export function upstreamEnis(facts: InspectionFacts): unknown {
  const { view, records } = facts;
  const addresses = inspectedAddresses(facts);
  return {
    [CARD]: {
      TotalIPs: records.reduce((total, { size }) => total + size, 0),
      AssignedIPs: records.reduce((total, { held }) => total + held, 0),
      ENIs: Object.fromEntries(
        (view?.enis ?? []).map((eni) => [eni.id, eniEntry(eni, addresses)]),
      ),
    },
  };
}

function eniEntry(
  { id, device = 0, ec2, grants, ipv6 }: Eni,
  addresses: readonly InspectedAddress[],
) {
  const entriesOf = (all: readonly Grant[]) =>
    Object.fromEntries(
      all.map(({ block }) => [String(block), cidrEntry(block, addresses)]),
    );
  return {
    ID: id,
    IsPrimary: device === 0,
    IsTrunk: false,
    IsEFA: false,
    DeviceNumber: device,
    AvailableIPv4Cidrs: entriesOf(
      grants.filter(({ block }) => block.family === "ipv4"),
    ),
    IPv6Cidrs: entriesOf(ipv6 === undefined ? [] : [ipv6]),
    IsExcludedForPodIPs: false,
    RouteTableID: device === 0 ? MAIN_TABLE : VPC_ENI_TABLES + device,
    SubnetID: ec2?.subnet ?? "",
  };
}

function cidrEntry(block: Prefix, addresses: readonly InspectedAddress[]) {
  return {
    Cidr: { IP: String(block.address), Mask: maskText(block) },
    IPAddresses: Object.fromEntries(
      addresses.filter(({ address }) => block.contains(address))
        .map((one) => [String(one.address), addressEntry(one)]),
    ),
    IsPrefix: block.hostBits > 0,
    AddressFamily: "",
  };
}

function addressEntry({ address, pod, since, isCooling }: InspectedAddress) {
  return {
    Address: String(address),
    IPAMKey: { networkName: "", containerID: "", ifName: "" },
    IPAMMetadata: {
      k8sPodNamespace: pod?.namespace ?? "",
      k8sPodName: pod?.name ?? "",
      interfacesCount: isCooling ? 0 : 1,
    },
    AssignedTime: isCooling ? NEVER : timeText(since),
    UnassignedTime: isCooling ? timeText(since) : NEVER,
  };
}

/** Base64 of the mask's bytes, as Go encodes a net.IPMask. */
function maskText({ address, length }: Prefix): string {
  const bytes = Array.from({ length: address.bits / 8 }, (_, n) => {
    const ones = Math.max(0, Math.min(8, length - 8 * n));
    return 256 - 2 ** (8 - ones);
  });
  return btoa(String.fromCharCode(...bytes));
}
