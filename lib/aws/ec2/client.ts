import type { WaitOptions } from "../../async/mod.ts";
import type { Prefix } from "../../inet/mod.ts";
import {
  addressGrantOf,
  instanceTypeOf,
  ipv6PrefixesOf,
  networkInterfaceOf,
} from "./answers.ts";
import type {
  AddressGrant,
  AddressRequest,
  AttachRequest,
  CreateRequest,
  Filters,
  GivenBack,
  InstanceType,
  NetworkInterface,
  Tags,
} from "./resources.ts";
import { AwsNoAnswerError } from "../base/errors.ts";
import {
  QueryClient,
  type QueryClientOptions,
  type QueryParameters,
  type QueryValue,
} from "../query/query.ts";
import { childOf, itemsAt, textAt, type XmlElement } from "../base/xml.ts";

const VERSION = "2016-11-15";
/** The most that EC2 gives at once. */
const PAGE_SIZE = 1_000;
/** Far more than there can be of one account and region. */
const MAX_PAGES = 100;

/** How an {@linkcode Ec2Client} calls. */
export type Ec2ClientOptions = Omit<QueryClientOptions, "service" | "version">;

/**
 * The calls of EC2 that manage network interfaces.
 *
 * All throw {@linkcode AwsError} when EC2 refuses, {@linkcode AwsNoAnswerError} when there is no whole answer in
 * time, {@linkcode CredentialsError} without keys. After the second, and after a failure of EC2 itself, it is not
 * known whether a change was made: look again. A signal ends the wait for a change's turn, not a change that was sent.
 */
export class Ec2Client implements Disposable {
  readonly #query: QueryClient;

  /** @throws {SyntaxError} when the endpoint is not a URL of http or https */
  constructor(options: Ec2ClientOptions) {
    this.#query = new QueryClient({
      ...options,
      service: "ec2",
      version: VERSION,
    });
  }

  /** All that the filters match, for example those attached to an instance: `attachment.instance-id`. */
  async describeNetworkInterfaces(
    filters: Filters,
    options: WaitOptions = {},
  ): Promise<NetworkInterface[]> {
    const [name, list] = ["DescribeNetworkInterfaces", "networkInterfaceSet"];
    const items = await this.#pages(name, list, { filters, ...options });
    return items.map(networkInterfaceOf);
  }

  /** What a type of instance allows. */
  async describeInstanceType(
    type: string,
    options: WaitOptions = {},
  ): Promise<InstanceType> {
    const name = "DescribeInstanceTypes";
    const answer = await this.#read(name, { InstanceType: [type] }, options);
    const [item] = itemsAt(answer, "instanceTypeSet");
    return instanceTypeOf(needed(item, name, "instanceTypeSet"));
  }

  /** Creates an interface, once, however often the call with this token is made. */
  async createNetworkInterface(
    request: CreateRequest,
    options: WaitOptions = {},
  ): Promise<NetworkInterface> {
    const name = "CreateNetworkInterface";
    const answer = await this.#changeAgain(name, {
      ClientToken: request.clientToken,
      SubnetId: request.subnetId,
      SecurityGroupId: request.groups,
      Description: request.description,
      SecondaryPrivateIpAddressCount: request.addresses,
      Ipv4PrefixCount: request.prefixes,
      Ipv6AddressCount: request.ipv6Addresses,
      Ipv6PrefixCount: request.ipv6Prefixes,
      TagSpecification: [{
        ResourceType: "network-interface",
        Tag: tagsOf(request.tags),
      }],
    }, options);
    const made = childOf(answer, "networkInterface");
    return networkInterfaceOf(needed(made, name, "networkInterface"));
  }

  /** Attaches an interface and returns the ID of the attachment. */
  async attachNetworkInterface(
    request: AttachRequest,
    options: WaitOptions = {},
  ): Promise<string> {
    const name = "AttachNetworkInterface";
    const answer = await this.#change(name, {
      NetworkInterfaceId: request.networkInterfaceId,
      InstanceId: request.instanceId,
      DeviceIndex: request.deviceIndex,
      NetworkCardIndex: 0,
    }, options);
    return needed(textAt(answer, "attachmentId"), name, "attachmentId");
  }

  /** Begins to detach; the interface's status says when that is done. */
  async detachNetworkInterface(
    attachmentId: string,
    options: WaitOptions = {},
  ): Promise<void> {
    await this.#change("DetachNetworkInterface", {
      AttachmentId: attachmentId,
    }, options);
  }

  /** Deletes an interface that is not attached. */
  async deleteNetworkInterface(
    networkInterfaceId: string,
    options: WaitOptions = {},
  ): Promise<void> {
    await this.#change("DeleteNetworkInterface", {
      NetworkInterfaceId: networkInterfaceId,
    }, options);
  }

  /** Gives an interface more addresses or prefixes, and returns these. */
  async assignPrivateIpAddresses(
    networkInterfaceId: string,
    request: AddressRequest,
    options: WaitOptions = {},
  ): Promise<AddressGrant> {
    const answer = await this.#change("AssignPrivateIpAddresses", {
      NetworkInterfaceId: networkInterfaceId,
      SecondaryPrivateIpAddressCount: request.addresses,
      Ipv4PrefixCount: request.prefixes,
    }, options);
    return addressGrantOf(answer);
  }

  /** Takes addresses and prefixes from an interface. */
  async unassignPrivateIpAddresses(
    networkInterfaceId: string,
    { addresses = [], prefixes = [] }: GivenBack,
    options: WaitOptions = {},
  ): Promise<void> {
    await this.#change("UnassignPrivateIpAddresses", {
      NetworkInterfaceId: networkInterfaceId,
      PrivateIpAddress: addresses.map(String),
      Ipv4Prefix: prefixes.map(String),
    }, options);
  }

  /** Gives an interface IPv6 prefixes (/80), and returns these. */
  async assignIpv6Prefixes(
    networkInterfaceId: string,
    count: number,
    options: WaitOptions = {},
  ): Promise<Prefix[]> {
    const answer = await this.#change("AssignIpv6Addresses", {
      NetworkInterfaceId: networkInterfaceId,
      Ipv6PrefixCount: count,
    }, options);
    return ipv6PrefixesOf(answer);
  }

  /** Has an attached interface deleted together with its instance. */
  async deleteOnTermination(
    { networkInterfaceId, attachmentId }: {
      readonly networkInterfaceId: string;
      readonly attachmentId: string;
    },
    options: WaitOptions = {},
  ): Promise<void> {
    await this.#changeAgain("ModifyNetworkInterfaceAttribute", {
      NetworkInterfaceId: networkInterfaceId,
      Attachment: { AttachmentId: attachmentId, DeleteOnTermination: true },
    }, options);
  }

  /** Closes its connections. */
  [Symbol.dispose](): void {
    this.#query[Symbol.dispose]();
  }

  #read(
    name: string,
    parameters: QueryParameters,
    options: WaitOptions,
  ): Promise<XmlElement> {
    return this.#query.call({ name, kind: "read" }, parameters, options);
  }

  #change(
    name: string,
    parameters: QueryParameters,
    options: WaitOptions,
  ): Promise<XmlElement> {
    return this.#query.call({ name, kind: "change" }, parameters, options);
  }

  /** A change that does the same when it is made twice. */
  #changeAgain(
    name: string,
    parameters: QueryParameters,
    options: WaitOptions,
  ): Promise<XmlElement> {
    const call = { name, kind: "change", isRepeatable: true } as const;
    return this.#query.call(call, parameters, options);
  }

  /** The items of all pages. */
  async #pages(
    name: string,
    list: string,
    { filters, ...options }: WaitOptions & { readonly filters: Filters },
  ): Promise<XmlElement[]> {
    const items: XmlElement[] = [];
    const Filter = Object.entries(filters)
      .map(([Name, Value]) => ({ Name, Value }));
    let NextToken: string | undefined;
    for (let page = 1; page <= MAX_PAGES; page++) {
      const parameters = { Filter, MaxResults: PAGE_SIZE, NextToken };
      const answer = await this.#read(name, parameters, options);
      items.push(...itemsAt(answer, list));
      NextToken = textAt(answer, "nextToken") || undefined;
      if (NextToken === undefined) return items;
    }
    throw new AwsNoAnswerError(
      `Cannot read the answer of EC2 to ${name}: it has more than ${MAX_PAGES} pages`,
    );
  }
}

function tagsOf(tags: Tags): QueryValue {
  return Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));
}

function needed<T>(value: T | undefined, call: string, name: string): T {
  if (value !== undefined) return value;
  throw new AwsNoAnswerError(
    `Cannot read the answer of EC2 to ${call}: it has no "${name}"`,
  );
}
