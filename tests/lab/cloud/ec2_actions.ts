import { Address, Prefix } from "../../../lib/inet/mod.ts";
import type { Account } from "./account.ts";
import {
  assignedXml,
  eniValues,
  eniXml,
  subnetValues,
  subnetXml,
} from "./ec2_objects.ts";
import { NOTHING, type Wanted } from "./eni.ts";
import {
  invalidCombination,
  invalidValue,
  missingParameter,
} from "./errors.ts";
import { matching } from "./filters.ts";
import type { Form } from "./form.ts";
import { pageOf } from "./paging.ts";
import type { XmlFields } from "./xml.ts";

/** Reads its parameters, all of them before it changes anything, and answers with elements. */
export type Action = (form: Form, account: Account) => XmlFields;

const MAX_COUNT = 1_000;
const COUNT = { min: 1, max: MAX_COUNT };
const DONE: XmlFields = { return: true };

/** The actions that there are. */
export const ACTIONS: Readonly<Record<string, Action>> = {
  AssignIpv6Addresses(form, account) {
    const id = form.required("NetworkInterfaceId");
    const addresses6 = form.integer("Ipv6AddressCount", COUNT) ?? 0;
    const prefixes6 = form.integer("Ipv6PrefixCount", COUNT) ?? 0;
    form.end();
    needSomething(addresses6 + prefixes6);
    const granted = account.assign(id, { ...NOTHING, addresses6, prefixes6 });
    return {
      networkInterfaceId: id,
      assignedIpv6Addresses: granted.addresses6.map(String),
      assignedIpv6PrefixSet: granted.prefixes6.map(String),
    };
  },

  AssignPrivateIpAddresses(form, account) {
    const id = form.required("NetworkInterfaceId");
    form.flag("AllowReassignment");
    const addresses = eitherOf(
      form.integer("SecondaryPrivateIpAddressCount", COUNT),
      form.list("PrivateIpAddress").map(parseAddress),
    );
    const prefixes = eitherOf(
      form.integer("Ipv4PrefixCount", COUNT),
      form.list("Ipv4Prefix").map(parsePrefix),
    );
    form.end();
    if (isSome(addresses) && isSome(prefixes)) {
      throw invalidCombination(
        "Addresses and prefixes cannot be assigned by one request",
      );
    }
    needSomething(isSome(addresses) || isSome(prefixes) ? 1 : 0);
    const granted = account.assign(id, { ...NOTHING, addresses, prefixes });
    return { networkInterfaceId: id, ...assignedXml(granted) };
  },

  AttachNetworkInterface(form, account) {
    const id = form.required("NetworkInterfaceId");
    const instanceId = form.required("InstanceId");
    form.required("DeviceIndex");
    const deviceIndex = form.integer("DeviceIndex", { min: 0, max: MAX_COUNT });
    const networkCardIndex = form.integer("NetworkCardIndex", {
      min: 0,
      max: 0,
    });
    form.end();
    const to = { instanceId, deviceIndex: deviceIndex ?? 0 };
    const { id: attachmentId } = account.attach(id, to);
    return { attachmentId, networkCardIndex: networkCardIndex ?? 0 };
  },

  CreateNetworkInterface(form, account) {
    const spec = {
      subnetId: form.required("SubnetId"),
      description: form.text("Description") ?? "",
      securityGroups: form.list("SecurityGroupId"),
      tags: tagsOfNewEni(form),
      wanted: wantedOfNewEni(form),
    };
    // The server has used it already.
    form.text("ClientToken");
    form.end();
    const eni = account.create(spec);
    return { networkInterface: eniXml(eni, account) };
  },

  CreateTags(form, account) {
    const ids = form.list("ResourceId");
    const tags = tagsOf(form);
    form.end();
    if (ids.length === 0) throw missingParameter("ResourceId");
    if (tags.size === 0) throw missingParameter("Tag");
    for (const id of ids) account.eni(id);
    for (const id of ids) account.tag(id, tags);
    return DONE;
  },

  DeleteNetworkInterface(form, account) {
    const id = form.required("NetworkInterfaceId");
    form.end();
    account.delete(id);
    return DONE;
  },

  DescribeInstanceTypes(form, account) {
    const names = form.list("InstanceType");
    form.end();
    const instanceTypeSet = names.map((name) => {
      const type = account.instanceType(name);
      return {
        instanceType: name,
        bareMetal: false,
        hypervisor: type.hypervisor,
        networkInfo: {
          maximumNetworkInterfaces: type.enis,
          maximumNetworkCards: 1,
          defaultNetworkCardIndex: 0,
          networkCards: [{
            networkCardIndex: 0,
            maximumNetworkInterfaces: type.enis,
          }],
          ipv4AddressesPerInterface: type.addresses,
          ipv6AddressesPerInterface: type.hypervisor === "nitro"
            ? type.addresses
            : 0,
          ipv6Supported: type.hypervisor === "nitro",
        },
      };
    });
    return { instanceTypeSet };
  },

  DescribeNetworkInterfaces(form, account) {
    const enis = account.enis(account.pace.describeLagMs);
    const ids = form.list("NetworkInterfaceId");
    const named = ids.length > 0
      ? ids.map((id) => account.eni(id, enis))
      : [...enis.values()];
    const found = matching(named, {
      form,
      values: (name) => eniValues(name, account),
    });
    const page = pageOf(found, {
      form,
      named: ids.length > 0,
      most: account.pace.pageSize,
    });
    form.end();
    return {
      networkInterfaceSet: page.items.map((eni) => eniXml(eni, account)),
      nextToken: page.nextToken,
    };
  },

  DescribeSubnets(form, account) {
    const ids = form.list("SubnetId");
    const all = [...account.subnets.values()];
    for (const id of ids) account.subnet(id);
    const named = all.filter(({ id }) => ids.length === 0 || ids.includes(id));
    const found = matching(named, {
      form,
      values: (name) => subnetValues(name, account),
    });
    const page = pageOf(found, {
      form,
      named: ids.length > 0,
      most: account.pace.pageSize,
    });
    form.end();
    return {
      subnetSet: page.items.map((subnet) => subnetXml(subnet, account)),
      nextToken: page.nextToken,
    };
  },

  DetachNetworkInterface(form, account) {
    const id = form.required("AttachmentId");
    form.flag("Force");
    form.end();
    account.detach(id);
    return DONE;
  },

  ModifyNetworkInterfaceAttribute(form, account) {
    const id = form.required("NetworkInterfaceId");
    const groups = form.list("SecurityGroupId");
    const description = form.text("Description.Value");
    const attachmentId = form.text("Attachment.AttachmentId");
    const value = form.flag("Attachment.DeleteOnTermination");
    form.end();
    const isAttachment = attachmentId !== undefined && value !== undefined;
    const changes = [
      groups.length > 0,
      description !== undefined,
      isAttachment,
    ];
    if (changes.filter((is) => is).length !== 1) {
      throw invalidCombination("One attribute has to be given, and only one");
    }
    account.eni(id);
    if (groups.length > 0) account.setGroups(id, groups);
    if (description !== undefined) account.setDescription(id, description);
    if (isAttachment) {
      account.setDeleteOnTermination(id, { attachmentId, value });
    }
    return DONE;
  },

  UnassignPrivateIpAddresses(form, account) {
    const id = form.required("NetworkInterfaceId");
    const addresses = form.list("PrivateIpAddress").map(parseAddress);
    const prefixes = form.list("Ipv4Prefix").map(parsePrefix);
    form.end();
    needSomething(addresses.length + prefixes.length);
    account.unassign(id, { addresses, prefixes });
    return DONE;
  },
};

function needSomething(count: number): void {
  if (count > 0) return;
  throw invalidCombination(
    "Nothing is given that could be assigned or unassigned",
  );
}

function isSome(wanted: number | readonly unknown[]): boolean {
  return typeof wanted === "number" ? wanted > 0 : wanted.length > 0;
}

/** A number, or names. */
function eitherOf<T>(
  count: number | undefined,
  named: readonly T[],
): number | readonly T[] {
  if (count === undefined) return named;
  if (named.length === 0) return count;
  throw invalidCombination("Give either a count or a list, not both");
}

function parseAddress(text: string): Address {
  const address = Address.tryParse(text);
  if (address?.family === "ipv4") return address;
  throw invalidValue(`Invalid IPv4 address: ${text}`);
}

function parsePrefix(text: string): Prefix {
  const prefix = Prefix.tryParse(text);
  if (prefix?.length === 28 && `${prefix}` === text) return prefix;
  throw invalidValue(`Invalid IPv4 prefix: ${text}`);
}

function wantedOfNewEni(form: Form): Wanted {
  const addresses = form.integer("SecondaryPrivateIpAddressCount", COUNT) ?? 0;
  const prefixes = form.integer("Ipv4PrefixCount", COUNT) ?? 0;
  const addresses6 = form.integer("Ipv6AddressCount", COUNT) ?? 0;
  const prefixes6 = form.integer("Ipv6PrefixCount", COUNT) ?? 0;
  if (addresses > 0 && prefixes > 0 || addresses6 > 0 && prefixes6 > 0) {
    throw invalidCombination(
      "Addresses and prefixes cannot be assigned by one request",
    );
  }
  return { addresses, prefixes, addresses6, prefixes6 };
}

function tagsOfNewEni(form: Form): ReadonlyMap<string, string> {
  const tags = new Map<string, string>();
  for (const part of form.forms("TagSpecification")) {
    const type = part.required("ResourceType");
    if (type !== "network-interface") {
      throw invalidValue(
        `'${type}' is not a valid taggable resource type for this operation.`,
      );
    }
    for (const [key, value] of tagsOf(part)) tags.set(key, value);
  }
  return tags;
}

function tagsOf(form: Form): ReadonlyMap<string, string> {
  const tags = form.forms("Tag").map((tag) =>
    [tag.required("Key"), tag.text("Value") ?? ""] as const
  );
  const byKey = new Map(tags);
  if (byKey.size === tags.length) return byKey;
  throw invalidValue("Duplicate tag key specified");
}
