import { Address, Prefix } from "../../inet/mod.ts";
import type {
  AddressGrant,
  InstanceType,
  InterfaceAttachment,
  NetworkInterface,
  Tags,
} from "./resources.ts";
import { AwsNoAnswerError } from "../base/errors.ts";
import { childOf, itemsAt, textAt, type XmlElement } from "../base/xml.ts";

/** Reads an interface. @throws {AwsNoAnswerError} when it is not whole */
export function networkInterfaceOf(item: XmlElement): NetworkInterface {
  const addresses = itemsAt(item, "privateIpAddressesSet").map((entry) => ({
    address: addressOf(need(entry, "privateIpAddress")),
    isPrimary: textAt(entry, "primary") === "true",
  }));
  return {
    networkInterfaceId: need(item, "networkInterfaceId"),
    subnetId: need(item, "subnetId"),
    vpcId: need(item, "vpcId"),
    availabilityZone: need(item, "availabilityZone"),
    macAddress: need(item, "macAddress"),
    status: need(item, "status"),
    description: textAt(item, "description") ?? "",
    primaryAddress: addresses.find(({ isPrimary }) => isPrimary)?.address,
    secondaryAddresses: addresses.filter(({ isPrimary }) => !isPrimary)
      .map(({ address }) => address),
    ipv4Prefixes: itemsAt(item, "ipv4PrefixSet")
      .map((entry) => prefixOf(need(entry, "ipv4Prefix"))),
    ipv6Addresses: itemsAt(item, "ipv6AddressesSet")
      .map((entry) => addressOf(need(entry, "ipv6Address"))),
    ipv6Prefixes: itemsAt(item, "ipv6PrefixSet")
      .map((entry) => prefixOf(need(entry, "ipv6Prefix"))),
    groups: itemsAt(item, "groupSet").map((entry) => need(entry, "groupId")),
    tags: tagsOf(item),
    attachment: attachmentOf(childOf(item, "attachment")),
  };
}

/** Reads a type of instance. @throws {AwsNoAnswerError} when it is not whole */
export function instanceTypeOf(item: XmlElement): InstanceType {
  const network = childOf(item, "networkInfo");
  const cards = itemsAt(network, "networkCards");
  // Without cards there is one.
  const first = cards.find((card) => count(card, "networkCardIndex") === 0);
  return {
    instanceType: need(item, "instanceType"),
    maxInterfaces: count(first ?? network, "maximumNetworkInterfaces"),
    ipv4PerInterface: count(network, "ipv4AddressesPerInterface"),
    ipv6PerInterface: count(network, "ipv6AddressesPerInterface"),
    hypervisor: textAt(item, "hypervisor") || undefined,
    isBareMetal: textAt(item, "bareMetal") === "true",
  };
}

/** Reads what an interface got. @throws {AwsNoAnswerError} when it is not whole */
export function addressGrantOf(answer: XmlElement): AddressGrant {
  return {
    addresses: itemsAt(answer, "assignedPrivateIpAddressesSet")
      .map((entry) => addressOf(need(entry, "privateIpAddress"))),
    prefixes: itemsAt(answer, "assignedIpv4PrefixSet")
      .map((entry) => prefixOf(need(entry, "ipv4Prefix"))),
  };
}

/** Reads the IPv6 prefixes that an interface got, which are texts, not elements. @throws {AwsNoAnswerError} */
export function ipv6PrefixesOf(answer: XmlElement): Prefix[] {
  return itemsAt(answer, "assignedIpv6PrefixSet")
    .map(({ text }) => prefixOf(text));
}

function attachmentOf(
  item: XmlElement | undefined,
): InterfaceAttachment | undefined {
  if (item === undefined) return undefined;
  return {
    attachmentId: need(item, "attachmentId"),
    instanceId: textAt(item, "instanceId") || undefined,
    deviceIndex: count(item, "deviceIndex"),
    networkCardIndex: textAt(item, "networkCardIndex") === undefined
      ? 0
      : count(item, "networkCardIndex"),
    status: need(item, "status"),
    deleteOnTermination: textAt(item, "deleteOnTermination") === "true",
  };
}

function tagsOf(item: XmlElement): Tags {
  return Object.fromEntries(
    itemsAt(item, "tagSet").map((entry) => [
      need(entry, "key"),
      textAt(entry, "value") ?? "",
    ]),
  );
}

function need(element: XmlElement | undefined, name: string): string {
  return textAt(element, name) || bad(element, name, "is missing");
}

function count(element: XmlElement | undefined, name: string): number {
  const text = need(element, name);
  return /^\d{1,9}$/.test(text)
    ? Number(text)
    : bad(element, name, "is not a number");
}

function addressOf(text: string): Address {
  return Address.tryParse(text) ?? bad(undefined, text, "is not an address");
}

function prefixOf(text: string): Prefix {
  return Prefix.tryParse(text) ?? bad(undefined, text, "is not a prefix");
}

function bad(
  element: XmlElement | undefined,
  name: string,
  why: string,
): never {
  const where = element === undefined ? "" : ` of "${element.name}"`;
  throw new AwsNoAnswerError(
    `Cannot read the answer of EC2: "${name}"${where} ${why}`,
  );
}
