import type { Account } from "./account.ts";
import type { Eni, Granted, Subnet } from "./eni.ts";
import type { Xml, XmlFields } from "./xml.ts";

/** The account's number. */
const OWNER = "123456789012";

/** What an ENI was given, as AssignPrivateIpAddresses answers. */
export function assignedXml({ secondary, prefixes }: Granted): XmlFields {
  return {
    assignedPrivateIpAddressesSet: orAbsent(
      secondary.map((it) => ({ privateIpAddress: `${it}` })),
    ),
    assignedIpv4PrefixSet: orAbsent(
      prefixes.map((it) => ({ ipv4Prefix: `${it}` })),
    ),
  };
}

function orAbsent(items: readonly Xml[]): Xml {
  return items.length > 0 ? items : undefined;
}

function statusOf({ attachment }: Eni): string {
  return attachment === undefined ? "available" : "in-use";
}

/** An ENI as it is described. */
export function eniXml(eni: Eni, account: Account): XmlFields {
  const { attachment } = eni;
  return {
    networkInterfaceId: eni.id,
    subnetId: eni.subnet.id,
    vpcId: account.vpc.id,
    availabilityZone: eni.subnet.zone,
    description: eni.description,
    ownerId: OWNER,
    requesterManaged: false,
    status: statusOf(eni),
    macAddress: eni.mac,
    privateIpAddress: `${eni.primary}`,
    sourceDestCheck: true,
    groupSet: eni.securityGroups.map((groupId) => ({
      groupId,
      groupName: groupId,
    })),
    attachment: attachment && {
      attachmentId: attachment.id,
      instanceId: attachment.instance.id,
      instanceOwnerId: OWNER,
      deviceIndex: attachment.deviceIndex,
      networkCardIndex: 0,
      status: attachment.status,
      attachTime: attachment.since,
      deleteOnTermination: attachment.deleteOnTermination,
    },
    tagSet: [...eni.tags].map(([key, value]) => ({ key, value })),
    privateIpAddressesSet: [eni.primary, ...eni.secondary].map((it, i) => ({
      privateIpAddress: `${it}`,
      primary: i === 0,
    })),
    ipv4PrefixSet: orAbsent(
      eni.prefixes.map((it) => ({ ipv4Prefix: `${it}` })),
    ),
    ipv6AddressesSet: eni.addresses6.map((it) => ({ ipv6Address: `${it}` })),
    ipv6PrefixSet: orAbsent(
      eni.prefixes6.map((it) => ({ ipv6Prefix: `${it}` })),
    ),
    interfaceType: "interface",
  };
}

/** A subnet as it is described. */
export function subnetXml(
  { id, zone, space, space6 }: Subnet,
  account: Account,
): XmlFields {
  return {
    subnetId: id,
    state: "available",
    vpcId: account.vpc.id,
    ownerId: OWNER,
    cidrBlock: `${space.cidr}`,
    availabilityZone: zone,
    availableIpAddressCount: space.free,
    ipv6CidrBlockAssociationSet: space6 === undefined ? [] : [{
      associationId: `${id}-cidr6`,
      ipv6CidrBlock: `${space6.cidr}`,
      ipv6CidrBlockState: { state: "associated" },
    }],
  };
}

/** What a filter compares of an ENI. */
export function eniValues(
  name: string,
  account: Account,
): ((eni: Eni) => readonly string[]) | undefined {
  if (name.startsWith("tag:")) {
    const key = name.slice("tag:".length);
    return ({ tags }) => tags.has(key) ? [tags.get(key) ?? ""] : [];
  }
  const ofAttachment =
    (read: (it: NonNullable<Eni["attachment"]>) => string) =>
    ({ attachment }: Eni) => attachment === undefined ? [] : [read(attachment)];
  const values: Readonly<Record<string, (eni: Eni) => readonly string[]>> = {
    "addresses.private-ip-address": ({ primary, secondary }) =>
      [primary, ...secondary].map(String),
    "attachment.attachment-id": ofAttachment(({ id }) => id),
    "attachment.device-index": ofAttachment((it) => `${it.deviceIndex}`),
    "attachment.instance-id": ofAttachment(({ instance }) => instance.id),
    "attachment.status": ofAttachment(({ status }) => status),
    "mac-address": ({ mac }) => [mac],
    "network-interface-id": ({ id }) => [id],
    "private-ip-address": ({ primary }) => [`${primary}`],
    status: (eni) => [statusOf(eni)],
    "subnet-id": ({ subnet }) => [subnet.id],
    "tag-key": ({ tags }) => [...tags.keys()],
    "vpc-id": () => [account.vpc.id],
  };
  return values[name];
}

/** What a filter compares of a subnet. */
export function subnetValues(
  name: string,
  account: Account,
): ((subnet: Subnet) => readonly string[]) | undefined {
  const values: Readonly<Record<string, (it: Subnet) => readonly string[]>> = {
    "availability-zone": ({ zone }) => [zone],
    "subnet-id": ({ id }) => [id],
    "vpc-id": () => [account.vpc.id],
  };
  return values[name];
}
